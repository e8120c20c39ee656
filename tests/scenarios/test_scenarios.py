"""Runs the text scenarios of this folder; a failed line is named with its file, number and text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.wire.errors import error_name
from tests.support.memory_cluster import MemoryCluster, produced
from tests.support.memory_links import Held
from tests.support.memory_node import TOPIC, FakeSlot

FOLDER = Path(__file__).parent


class Script:
    """One run of one file."""

    def __init__(self) -> None:
        self._cluster: MemoryCluster | None = None
        self.slots: dict[str, FakeSlot] = {}
        self.held_links: set[tuple[int, int]] = set()

    @property
    def cluster(self) -> MemoryCluster:
        assert self._cluster is not None, "the first line must be `cluster`"
        return self._cluster

    def run(self, words: list[str]) -> None:
        getattr(self, f"do_{words[0]}")(*words[1:])

    def do_cluster(self, *pairs: str) -> None:
        options = dict(pair.split("=", 1) for pair in pairs)
        numbers: dict[str, Any] = {
            name: int(options.pop(name)) for name in ("replicas", "min_isr", "leader") if name in options
        }
        self._cluster = MemoryCluster(settings=options, **numbers)
        self._cluster.hold = self._holds
        self._cluster.settle()

    def _holds(self, message: Held) -> bool:
        return (message.source, message.target) in self.held_links

    def do_produce(self, broker: str, value: str, *rest: str) -> None:
        acks = 1 if "acks=1" in rest else -1
        name = rest[rest.index("as") + 1] if "as" in rest else value
        self.slots[name] = self.cluster.produce(int(broker), value, acks=acks)

    def do_settle(self) -> None:
        self.cluster.settle()

    def do_turns(self, count: str) -> None:
        for _ in range(int(count)):
            self.cluster.turn()

    def do_advance(self, ms: str) -> None:
        self.cluster.advance(float(ms))

    def do_hold(self, link: str) -> None:
        source, target = link.split(">")
        self.held_links.add((int(source), int(target)))

    def do_release(self) -> None:
        self.held_links.clear()
        self.cluster.release()

    def do_pause(self, broker: str) -> None:
        self.cluster.nodes[int(broker)].paused = True

    def do_resume(self, broker: str) -> None:
        self.cluster.resume(int(broker))

    def do_kill(self, broker: str) -> None:
        self.cluster.kill(int(broker))

    def do_expire(self, broker: str) -> None:
        self.cluster.expire(int(broker))

    def do_start(self, broker: str) -> None:
        self.cluster.start(int(broker))

    def do_elect(self, broker: str) -> None:
        self.cluster.elect(int(broker))

    def do_deaf(self, broker: str) -> None:
        self.cluster.nodes[int(broker)].deaf = True

    def do_hear(self, broker: str) -> None:
        self.cluster.nodes[int(broker)].deaf = False
        self.cluster.tell(int(broker))

    def do_cut(self, broker: str, records: str) -> None:
        node = self.cluster.nodes[int(broker)]
        assert node.manager is None, "a power failure ends the process first"
        node.log.truncate_to(int(records))

    def do_minimum(self, value: str, *who: str) -> None:
        """These hear of another min.insync.replicas, in this order: brokers, `controller`."""
        for name in who:
            if name == "controller":
                self.cluster.controller_hears(int(value))
            else:
                self.cluster.broker_hears(int(name), int(value))

    def do_power(self, broker: str, records: str) -> None:
        self.cluster.lose_tail(int(broker), int(records))

    def see_eligible(self, *brokers: str) -> tuple[object, object]:
        return list(self.cluster.elr), [int(b) for b in brokers]

    def do_expect(self, what: str, *words: str) -> None:
        found, wanted = getattr(self, f"see_{what}")(*words)
        assert found == wanted, f"found {found}"

    def see_leader(self, broker: str) -> tuple[object, object]:
        return self.cluster.state.leader, int(broker)

    def see_isr(self, *brokers: str) -> tuple[object, object]:
        return sorted(self.cluster.state.isr), sorted(map(int, brokers))

    def see_hw(self, broker: str, offset: str) -> tuple[object, object]:
        return self.cluster.nodes[int(broker)].hw, int(offset)

    def see_leo(self, broker: str, offset: str) -> tuple[object, object]:
        return self.cluster.nodes[int(broker)].log.staged_end_offset, int(offset)

    def see_log(self, broker: str, *values: str) -> tuple[object, object]:
        return self.cluster.nodes[int(broker)].log.values(), list(values)

    def see_known(self, leader: str, *pairs: str) -> tuple[object, object]:
        """What the leader knows of each LEO: `1=5 2=3`."""
        role = self.cluster.nodes[int(leader)].up.replicas.by_partition[(TOPIC, 0)].leader
        assert role is not None, f"{leader} does not lead"
        wanted = {int(broker): int(leo) for broker, leo in (pair.split("=") for pair in pairs)}
        return role.leos(), wanted

    def see_acked(self, name: str) -> tuple[object, object]:
        result = produced(self.slots[name])
        return result is not None and error_name(result.error), "NONE"

    def see_error(self, name: str, error: str) -> tuple[object, object]:
        result = produced(self.slots[name])
        return result is not None and error_name(result.error), error

    def see_pending(self, name: str) -> tuple[object, object]:
        return produced(self.slots[name]), None

    def see_truncated(self, broker: str, *cuts: str) -> tuple[object, object]:
        """`to:reason` of each cut in the present incarnation."""
        found = [f"{line['to']}:{line['reason']}" for line in self.cluster.nodes[int(broker)].event_log.of("truncate")]
        return found, list(cuts)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    script = Script()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        try:
            script.run(words)
        except AssertionError as error:
            raise AssertionError(f"{path.name}:{number}: {line.strip()}: {error}") from error


def test_scenarios_are_there() -> None:
    assert len(list(FOLDER.glob("*.txt"))) >= 7
