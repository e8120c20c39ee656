"""What must hold at every step, judged by what brokers write, what clients are told, and what ZooKeeper holds.

The truth about a partition is `committed`: what some leader's watermark has passed, by offset, with the leader epoch
under which it was appended. It only grows, and everything else is compared with it. A partition is named with its
topic's id, so that a topic made anew is another one.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from broker.runtime.replicas.replica import Replica
from broker.wire.record_batch import BatchHeader, read_header
from broker.wire.records import Record, decode_records
from broker.zk.topic_codecs import decode_topic
from tests.support.simulation.scheduler import Scheduler

if TYPE_CHECKING:
    from tests.support.simulation.broker import BrokerProcess

Entry = tuple[int, str]
"""(leader epoch, value)"""
_READ_BYTES = 1 << 20


class Violation(AssertionError):
    """Something that must hold does not."""


class Observer:
    """See the module."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.committed: dict[str, list[Entry]] = defaultdict(list)
        self.logs: dict[tuple[int, str], list[Entry]] = {}
        """By broker and partition, what is written, of dead brokers too."""
        self.acknowledged: dict[str, dict[int, str]] = defaultdict(dict)
        """With acks=all, by offset."""
        self.shown: dict[str, dict[int, str]] = defaultdict(dict)
        self.doubtful: set[int] = set()
        """Brokers that lost power, and have not been seen in sync everywhere since."""
        self.topic_ids: dict[str, str] = {}
        """As ZooKeeper has them."""
        self._ending: set[str] = set()
        """Ids of topics that somebody asked to delete: their logs go one after the other."""
        self.states: dict[tuple[str, int], dict[str, Any]] = {}
        self._leaders: dict[str, dict[int, int]] = defaultdict(dict)
        self._committed_under: dict[str, list[int]] = defaultdict(list)
        """The leader epoch in which each offset was committed."""
        self._watermarks: dict[tuple[str, int], int] = {}
        """By partition and leader epoch."""
        self._checked: dict[tuple[int, str], int] = {}
        """Up to where a broker's log was compared with what is committed."""
        self._touched: dict[int, dict[str, int]] = defaultdict(dict)
        """In this turn of a broker: partition → its watermark as told, −1 where nothing was told."""
        self._epochs: dict[tuple[str, int], tuple[int, int]] = {}
        """Of the state in ZooKeeper: (leader epoch, controller epoch)."""

    def fail(self, text: str) -> None:
        """Note it, for whoever is on the stack may be a broker that takes it for an error of its own; and raise it."""
        self._scheduler.failures.append(text)
        raise Violation(text)

    # What brokers do

    def on_event(self, broker: BrokerProcess, event: str, fields: dict[str, Any]) -> None:
        """A line for the event log, in the middle of a turn."""
        name = fields.get("p")
        if event in ("fetch_sent", "fetch_received", "fetch_answered", "visible") or not isinstance(name, str):
            if event in ("controller", "election"):
                self._scheduler.note(f"{broker.name}: {event} {fields}")
            return
        if event not in ("append", "hw", "ack"):
            self._scheduler.note(f"{broker.name}: {event} {fields}")
        key = (broker.broker_id, name)
        match event:
            case "append":
                self._touched[broker.broker_id].setdefault(name, -1)
            case "truncate":
                self.logs[key] = self.logs.get(key, [])[: fields["to"]]
                self._checked[key] = min(self._checked.get(key, 0), fields["to"])
                self._touched[broker.broker_id].setdefault(name, -1)
            case "recovered":
                self.logs[key], self._checked[key] = [], 0
                self._sync(broker, name)
            case "become_leader":
                self._sync(broker, name)
                self._on_leader(broker.broker_id, name, fields)
            case "become_follower":
                self._touched[broker.broker_id].setdefault(name, -1)
            case "hw" if fields["role"] == "leader":
                self._sync(broker, name)
                self._on_watermark(broker.broker_id, name, fields)
            case "hw":
                self._touched[broker.broker_id][name] = fields["hw"]
            case "stop_replica" if fields["delete"]:
                self.logs.pop(key, None)
                self._checked.pop(key, None)
                self._touched[broker.broker_id].pop(name, None)

    def on_turn(self, broker: BrokerProcess) -> None:
        """The turn's writes are done, nothing of it was sent."""
        touched = self._touched.pop(broker.broker_id, None)
        for name, watermark in (touched or {}).items():
            self._sync(broker, name)
            if watermark >= 0:
                self._compare(broker.broker_id, name, watermark, "is below its watermark")

    def _sync(self, broker: BrokerProcess, name: str) -> None:
        """Read what a log has since it was read last."""
        replica = _replica(broker, name)
        key = (broker.broker_id, name)
        if replica is None or replica.offline:
            return
        entries = self.logs.setdefault(key, [])
        log, end = replica.log, replica.log.log_end_offset
        if len(entries) > end:
            self.fail(f"{name} on b{broker.broker_id} ends at {end}, it ended at {len(entries)}: cut without a word")
        while len(entries) < end:
            view = log.read_bytes(len(entries), _READ_BYTES, end, True)
            position = 0
            while position < len(view):
                header = read_header(view, position)
                if header.base_offset != len(entries):
                    self.fail(f"{name} on b{broker.broker_id}: a batch at {header.base_offset}, not {len(entries)}")
                for record in decode_records(view[position : position + header.size]):
                    entries.append((header.partition_leader_epoch, _text(name, header, record)))
                position += header.size

    def _on_leader(self, broker: int, name: str, fields: dict[str, Any]) -> None:
        epoch = fields["le"]
        other = self._leaders[name].setdefault(epoch, broker)
        if other != broker:
            self.fail(f"{name}: b{other} and b{broker} lead in epoch {epoch}")
        self._watermarks.setdefault((name, epoch), fields["hw"])
        committed = self.committed[name]
        under = self._committed_under[name]
        needed = sum(1 for one in under if one < epoch)
        log = self.logs.get((broker, name), [])
        if log[:needed] != committed[:needed] and not self._is_ending(name):
            self.fail(f"{name}: b{broker} leads in epoch {epoch} with {log}, but {committed[:needed]} is committed")

    def _on_watermark(self, broker: int, name: str, fields: dict[str, Any]) -> None:
        epoch, watermark = fields["le"], fields["hw"]
        before = self._watermarks.get((name, epoch), 0)
        if watermark < before:
            self.fail(f"{name}: the watermark of epoch {epoch} goes from {before} to {watermark}")
        self._watermarks[name, epoch] = watermark
        self._compare(broker, name, min(watermark, len(self.committed[name])), "is below its leader's watermark")
        log = self.logs[broker, name]
        if watermark > len(log):
            self.fail(f"{name}: b{broker} has watermark {watermark} and ends at {len(log)}")
        committed = self.committed[name]
        if watermark > len(committed):
            self._committed_under[name] += [epoch] * (watermark - len(committed))
            committed += log[len(committed) : watermark]
        for member in fields["isr"]:
            self.check_member(member, name, watermark, f"in the ISR of b{broker}, epoch {epoch}")

    def check_member(self, member: int, name: str, watermark: int, why: str) -> None:
        """A member of an ISR has what is committed."""
        if member not in self.doubtful and not self._is_ending(name):
            self._compare(member, name, watermark, why)

    def is_ending(self, topic: str, topic_id: str) -> bool:
        """Whether somebody has asked to delete it."""
        return topic_id in self._ending or self.topic_ids.get(topic) != topic_id

    def _is_ending(self, name: str) -> bool:
        return name.partition("~")[2].rpartition("-")[0] in self._ending

    def _compare(self, broker: int, name: str, upto: int, why: str) -> None:
        """A broker's log is as committed, below this offset; what was compared once is not again."""
        start = self._checked.get((broker, name), 0)
        if upto <= start:
            return
        log, committed = self.logs.get((broker, name), []), self.committed[name]
        if log[start:upto] != committed[start:upto] or upto > len(committed):
            self.fail(
                f"{name}: b{broker}, {why}, has {log[start:upto]} at {start}, committed is {committed[start:upto]}"
            )
        self._checked[broker, name] = upto

    # What clients are told

    def on_acknowledged(self, topic: str, partition: int, offset: int, value: str) -> None:
        """With acks=all. Which topic of the name it was, the answer does not say."""
        lives = [name for name in self.committed if _is_of(name, topic, partition)]
        for name in lives:
            committed = self.committed[name]
            if offset < len(committed) and committed[offset][1] == value:
                self.acknowledged[name][offset] = value
                return
        there = {name: self.committed[name][offset:] for name in lives}
        self.fail(f"{topic}-{partition}: {value} is acknowledged at {offset}, committed is {there}")

    def on_shown(self, name: str, offset: int, value: str, watermark: int) -> None:
        """To a consumer."""
        self.shown[name][offset] = value
        committed = self.committed[name]
        if not offset < watermark <= len(committed) or committed[offset][1] != value:
            self.fail(
                f"{name}: {value} was shown at {offset} (watermark {watermark}), committed is {committed[offset:]}"
            )

    def on_served(self, name: str, broker: int, epoch: int, watermark: int) -> None:
        """A fetch that names an epoch: its leader alone answers, with what it had as its leader."""
        leader, highest = self._leaders[name].get(epoch), self._watermarks.get((name, epoch), -1)
        if leader != broker or watermark > highest:
            self.fail(f"{name}: b{broker} serves epoch {epoch} up to {watermark}, which b{leader} led up to {highest}")

    # What ZooKeeper holds

    def on_written(self, path: str, data: bytes | None) -> None:
        """A znode was written; None: deleted."""
        parts = path.split("/")
        if path == "/controller_epoch" and data is not None:
            self._scheduler.note(f"zk: controller epoch {data.decode()}")
        if parts[1:3] == ["admin", "delete_topics"] and data is not None and parts[-1] in self.topic_ids:
            self._scheduler.note(f"zk: {path}")
            self._ending.add(self.topic_ids[parts[-1]])
        if parts[1:3] != ["brokers", "topics"] or len(parts) < 4:
            return
        topic = parts[3]
        if len(parts) == 4:
            self._scheduler.note(f"zk: {path} {None if data is None else data.decode()}")
            if data is None:
                self.topic_ids.pop(topic, None)
            else:
                self.topic_ids[topic] = decode_topic(topic, data).topic_id
        elif parts[-1] == "state":
            self._on_state(topic, int(parts[5]), data)

    def _on_state(self, topic: str, partition: int, data: bytes | None) -> None:
        self._scheduler.note(f"zk: {topic}-{partition} {None if data is None else data.decode()}")
        if data is None:
            self.states.pop((topic, partition), None)
            return
        state = self.states[topic, partition] = json.loads(data)
        name = f"{topic}~{self.topic_ids[topic]}-{partition}"
        epochs = (state["leader_epoch"], state["controller_epoch"])
        before = self._epochs.get((name, 0), (-1, -1))
        if epochs[0] < before[0] or epochs[1] < before[1]:
            self.fail(f"{name}: epochs in ZooKeeper go from {before} to {epochs}")
        self._epochs[name, 0] = epochs
        if not state["isr"] or state["leader"] not in (-1, *state["isr"]):
            self.fail(f"{name}: the state in ZooKeeper is {state}")
        for member in state["isr"]:
            self.check_member(member, name, len(self.committed[name]), "in the ISR in ZooKeeper")


def _text(name: str, header: BatchHeader, record: Record) -> str:
    """What stands for a record: a client's value, and whatever tells one of a coordinator, or a marker, from others."""
    if header.is_control or name.startswith("__"):
        return f"{record.offset}: producer {header.producer_id} {record.key!r} {record.value!r}"
    assert record.value is not None
    return record.value.decode()


def _is_of(name: str, topic: str, partition: int) -> bool:
    return name.startswith(f"{topic}~") and name.rpartition("-")[2] == str(partition)


def _replica(broker: BrokerProcess, name: str) -> Replica | None:
    manager = broker.manager
    topic, _, rest = name.partition("~")
    id_, _, partition = rest.rpartition("-")
    replica = None if manager is None else manager.replicas.by_partition.get((topic, int(partition)))
    return replica if replica is not None and replica.topic_id == id_ else None
