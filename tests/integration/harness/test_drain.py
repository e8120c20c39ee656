from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.wire.api import ApiKey
from broker.wire.records import NewRecord, encode_batch
from harness.clients.admin import Admin
from harness.clients.connection import Address
from harness.clients.router import Cluster, Leader
from harness.clients.values import encode_value
from harness.operations.history import History, read_lines
from harness.plan.plan import TopicPlan
from harness.workloads.append_poll import drain as drain_module
from harness.workloads.append_poll.drain import Drain
from harness.workloads.append_poll.leader_rotation import Rotation, Topic, current_leaders
from tests.integration.harness.fake_broker import FakeBroker

Line = dict[str, object]


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with History(tmp_path / "history.jsonl", time.monotonic_ns()) as made:
        yield made


def fill(broker: FakeBroker, partition: int, values: list[int]) -> None:
    for value in values:
        record = NewRecord(None, encode_value(value, "hw", partition, 60))
        broker.append(partition, encode_batch([record], timestamps=0))


def lines(history: History, f: str) -> list[Line]:
    history.flush()
    return [line for line in read_lines(history.path) if line["f"] == f]


def drained(history: History, reader: str) -> list[int]:
    return [
        record["value"]
        for line in lines(history, "poll")
        if line["type"] == "ok"
        for record in line["records"]  # type: ignore[attr-defined]
        if _invocation(history, line)["reader"] == reader
    ]


def _invocation(history: History, completion: Line) -> Line:
    return next(line for line in read_lines(history.path) if line["index"] == completion["invoke"])


def make(cluster: Cluster, history: History, sentinels: dict[int, int]) -> Drain:
    return Drain(cluster, history, itertools.count(1000).__next__, sentinels, sleep=lambda _s: None)


def test_drain_both_readers_read_everything_up_to_the_sentinel(
    broker: FakeBroker, cluster: Cluster, history: History
) -> None:
    fill(broker, 0, list(range(50)))
    incomplete = make(cluster, history, {0: 49}).round([0], lambda _p: Leader(1, 5), 30)
    assert incomplete == 0
    complete = lines(history, "drain-complete")
    assert [(line["reader"], line["leader"], line["start"], line["end"]) for line in complete] == [
        ("wire", "n1", 0, 50),
        ("confluent", "n1", 0, 50),
    ]
    assert drained(history, "wire") == list(range(50))
    assert drained(history, "confluent") == list(range(50))


def test_drain_polls_cover_the_range_without_a_gap(broker: FakeBroker, cluster: Cluster, history: History) -> None:
    fill(broker, 0, list(range(300)))
    make(cluster, history, {0: 299}).round([0], lambda _p: Leader(1, 5), 30)
    for reader in ("wire", "confluent"):
        position = 0
        for line in lines(history, "poll"):
            if line["type"] == "ok" and _invocation(history, line)["reader"] == reader:
                assert _invocation(history, line)["position"] == position
                position = int(str(line["next_position"]))
        assert position == 300


def test_drain_real_client_says_where_it_stands(broker: FakeBroker, cluster: Cluster, history: History) -> None:
    fill(broker, 0, list(range(2500)))  # More than it hands out at once.
    make(cluster, history, {0: 2499}).round([0], lambda _p: Leader(1, 5), 30)
    own = [
        (line["client_position"], line["position"])
        for line in lines(history, "poll")
        if line["type"] == "invoke" and line["reader"] == "confluent" and "client_position" in line
    ]
    assert own
    assert all(stands == asked for stands, asked in own), own


def test_drain_reads_past_the_sentinel_to_the_high_watermark_by_both_readers(
    broker: FakeBroker, cluster: Cluster, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies between the sentinel and the high watermark is committed too, and may be what was lost."""
    fill(broker, 0, list(range(30)))
    # One fetch must not bring everything: the sentinel is reached long before the high watermark.
    monkeypatch.setattr(drain_module, "POLL_BYTES", 300)
    assert make(cluster, history, {0: 4}).round([0], lambda _p: Leader(1, 5), 30) == 0
    assert [(line["reader"], line["start"], line["end"]) for line in lines(history, "drain-complete")] == [
        ("wire", 0, 30),
        ("confluent", 0, 30),
    ]
    assert drained(history, "wire") == list(range(30))
    assert drained(history, "confluent") == list(range(30))


def test_drain_sentinel_that_is_not_there_is_incomplete(broker: FakeBroker, cluster: Cluster, history: History) -> None:
    fill(broker, 0, [1, 2])
    incomplete = make(cluster, history, {0: 5}).round([0], lambda _p: Leader(1, 5), 1.0)
    assert incomplete == 2
    assert lines(history, "drain-complete") == []
    errors = [str(line["error"]) for line in lines(history, "drain-incomplete")]
    assert "at 2, before the end at 6" in errors[0]


def test_drain_without_an_acknowledged_sentinel_is_incomplete(
    broker: FakeBroker, cluster: Cluster, history: History
) -> None:
    make(cluster, history, {}).round([0], lambda _p: Leader(1, 5), 5.0)
    assert {line["error"] for line in lines(history, "drain-incomplete")} == {
        "no acknowledged sentinel in this partition"
    }


def test_drain_leader_that_changes_while_it_is_read_is_read_again(
    broker: FakeBroker, cluster: Cluster, history: History
) -> None:
    fill(broker, 0, [1, 2])
    epochs = itertools.chain([5, 6], itertools.repeat(6))
    make(cluster, history, {0: 1}).round([0], lambda _p: Leader(1, next(epochs)), 30)
    assert [line["reader"] for line in lines(history, "drain-complete")] == ["wire", "confluent"]
    consumers = {line["consumer"] for line in lines(history, "poll") if line["type"] == "invoke"}
    assert len(consumers) == 3


def test_drain_log_that_lost_its_head_between_the_readers_is_read_from_where_it_begins_now(
    broker: FakeBroker, cluster: Cluster, history: History
) -> None:
    fill(broker, 0, list(range(50)))
    asked = itertools.count(1)

    def resolve(_p: int) -> Leader:
        if next(asked) == 3:
            # The first reader is done: it was asked for before and after.
            broker.partitions[0].log_start = 10
        return Leader(1, 5)

    assert make(cluster, history, {0: 49}).round([0], resolve, 30) == 0
    assert [(line["reader"], line["start"], line["end"]) for line in lines(history, "drain-complete")] == [
        ("wire", 0, 50),
        ("confluent", 10, 50),
    ]
    assert drained(history, "confluent") == list(range(10, 50))


def test_drain_connection_that_breaks_is_recorded_and_tried_again(
    broker: FakeBroker, cluster: Cluster, history: History
) -> None:
    fill(broker, 0, [1, 2])
    broker.next(ApiKey.FETCH, lambda _header: None)
    assert make(cluster, history, {0: 1}).round([0], lambda _p: Leader(1, 5), 30) == 0
    polls = [line for line in lines(history, "poll") if line["type"] != "invoke"]
    assert (polls[0]["type"], polls[0]["error"]) == ("info", "connection-reset")
    processes = [line["process"] for line in lines(history, "poll") if line["type"] == "invoke"]
    assert processes[0] != processes[1]


class Control:
    """Stops and starts brokers of a fake cluster: leadership of the one partition moves on as brokers stop."""

    def __init__(self, brokers: dict[str, FakeBroker]) -> None:
        self.brokers = brokers
        self.running = sorted(brokers)
        self.calls: list[str] = []
        self.elect()

    def elect(self) -> None:
        leader = int(self.running[-1][1:])
        epoch = max(broker.partitions[0].epoch for broker in self.brokers.values()) + 1
        for broker in self.brokers.values():
            broker.partitions[0].leader = leader
            broker.partitions[0].epoch = epoch
            broker.partitions[0].isr = [1, 2]

    def stop_broker(self, node: str) -> str | None:
        self.calls.append(f"stop {node}")
        self.running.remove(node)
        self.elect()
        return None

    def start_broker(self, node: str) -> None:
        self.calls.append(f"start {node}")
        self.running = sorted([*self.running, node])


def test_rotation_makes_every_replica_lead_and_drains_it(history: History) -> None:
    first, second = FakeBroker(broker_id=1), FakeBroker(broker_id=2)
    try:
        for broker in (first, second):
            fill(broker, 0, [1, 2, 3])
        cluster = Cluster(
            "hw",
            {1: ("127.0.0.1", first.port), 2: ("127.0.0.1", second.port)},  # type: ignore[dict-item]
            {1: "n1", 2: "n2"},
        )
        control = Control({"n1": first, "n2": second})
        admin = Admin(cluster)
        topic = TopicPlan("hw", 1, 2)
        Rotation(control, [Topic(admin, make(cluster, history, {0: 2}))], history, topic, 10.0).run()
        admin.close()
    finally:
        first.close()
        second.close()
    # After the last round nobody needs the stopped ones again.
    assert control.calls == ["stop n2", "start n2", "stop n1"]
    complete = lines(history, "drain-complete")
    assert [(line["phase"], line["leader"], line["reader"]) for line in complete] == [
        ("drain-n1", "n1", "wire"),
        ("drain-n1", "n1", "confluent"),
        ("drain-n2", "n2", "wire"),
        ("drain-n2", "n2", "confluent"),
    ]


def test_rotation_drains_every_topic_from_every_replica(history: History) -> None:
    """A topic that the run's records are turned into has replicas, too."""

    class Both(Control):
        """The second topic, on brokers of its own here, is led by whoever leads the first, but for the first round."""

        def elect(self) -> None:
            super().elect()
            for broker in out.values():
                broker.partitions[0].leader = int(self.running[0 if len(self.running) == 2 else -1][1:])
                broker.partitions[0].isr = [1, 2]

    brokers = {f"n{number}": FakeBroker(broker_id=number) for number in (1, 2)}
    out = {f"n{number}": FakeBroker("hw-out", broker_id=number) for number in (1, 2)}
    names = {1: "n1", 2: "n2"}
    topics = []
    try:
        control = Both(brokers)
        for name, of in (("hw", brokers), ("hw-out", out)):
            for one in of.values():
                fill(one, 0, [1, 2, 3])
            addresses = {number: Address("127.0.0.1", of[node].port) for number, node in names.items()}
            cluster = Cluster(name, addresses, names)
            topics.append(Topic(Admin(cluster), make(cluster, history, {0: 2})))
        incomplete = Rotation(control, topics, history, TopicPlan("hw", 1, 2), 10.0).run()
    finally:
        for topic in topics:
            topic.admin.close()
        for one in (*brokers.values(), *out.values()):
            one.close()
    assert incomplete == 0
    assert control.calls == ["stop n2", "start n2", "stop n1"]
    complete = lines(history, "drain-complete")
    assert [(line["topic"], line["leader"]) for line in complete if line["reader"] == "wire"] == [
        ("hw", "n1"),
        ("hw-out", "n1"),
        ("hw", "n2"),
        ("hw-out", "n2"),
    ]


def test_rotation_broker_that_does_not_stop_is_recorded_and_started_again(
    broker: FakeBroker, cluster: Cluster, history: History
) -> None:
    class Stubborn(Control):
        def stop_broker(self, node: str) -> str | None:
            self.calls.append(f"stop {node}")
            raise RuntimeError("survives")

    fill(broker, 0, [1])
    both = Cluster("hw", {1: cluster.addresses[1], 2: cluster.addresses[1]}, {1: "n1", 2: "n2"})
    control = Stubborn({"n1": broker})
    broker.partitions[0].leader = 2
    admin = Admin(both)
    Rotation(control, [Topic(admin, make(both, history, {0: 0}))], history, TopicPlan("hw", 1, 2), 1.0).run()
    admin.close()
    assert control.calls == ["stop n2", "start n2"]
    assert any("survives" in str(line.get("error")) for line in lines(history, "rotation"))


def test_rotation_broker_that_had_to_be_killed_is_reported_as_a_crash(
    broker: FakeBroker, cluster: Cluster, history: History
) -> None:
    class Hanging(Control):
        def stop_broker(self, node: str) -> str:
            self.running.remove(node)
            broker.partitions[0].leader = 1
            return "did not end"

    fill(broker, 0, [1])
    both = Cluster("hw", {1: cluster.addresses[1], 2: cluster.addresses[1]}, {1: "n1", 2: "n2"})
    control = Hanging({"n1": broker, "n2": broker})
    admin = Admin(both)
    Rotation(control, [Topic(admin, make(both, history, {0: 0}))], history, TopicPlan("hw", 1, 2), 1.0).run()
    admin.close()
    told = [(line["node"], line["error"], line["phase"]) for line in lines(history, "crash")]
    assert told[0] == ("n2", "did not end", "drain-n1")


def test_current_leaders_without_a_response_is_none(broker: FakeBroker, cluster: Cluster) -> None:
    admin = Admin(cluster)
    resolve = current_leaders(admin)
    assert resolve(0) == Leader(1, 5)
    assert resolve(7) is None
    broker.close()
    assert resolve(0) is None
    admin.close()
