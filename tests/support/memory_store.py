"""ZooKeeper as a controller sees it, in memory: versions, conditional writes, and a death at any write.

`die_at` n lets the n-th write from now fail for ever after: `landed` says whether that write happened before. Watches
are noted and fired by `fire`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from broker.core.controller.cluster_state import (
    Broker,
    ControllerMoved,
    LeaderAndIsr,
    StoreUnavailable,
    Topic,
)
from broker.core.controller.stored import AssignmentWrite, StatesRead, StateWrite, StoredState, Term, TopicsRead, Watch
from broker.model.ids import BrokerId, TopicPartition


class Died(Exception):
    """The controller's process ended here."""


class Data:
    """What outlives controllers."""

    def __init__(self) -> None:
        self.brokers: dict[BrokerId, Broker] = {}
        self.topics: dict[str, tuple[Topic, int]] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.states: dict[TopicPartition, StoredState] = {}
        self.garbled: set[TopicPartition] = set()
        """Of these, the states that someone has written over with what makes no sense."""
        self.garbled_topics: set[str] = set()
        self.deletions: set[str] = set()
        self.deletion_ids: dict[str, str] = {}
        """Of these, the ids of those that are asked for by id."""
        self.elections: list[TopicPartition] | None = None
        self.reassignments: dict[TopicPartition, tuple[BrokerId, ...]] | None = None
        self.shutting_down: set[tuple[BrokerId, int]] = set()
        self.epoch = 0
        self.transaction = 0
        self.writes = 0

    def next_transaction(self) -> int:
        self.transaction += 1
        return self.transaction


class MemoryStore:
    """One controller's connection. Satisfies `ControllerStore`, without elections and suspicions."""

    def __init__(self, data: Data) -> None:
        self.data = data
        data.epoch += 1
        self.term = Term(data.epoch, data.epoch)
        self.die_at: int | None = None
        self.landed = False
        self.watches: dict[str, Watch] = {}
        self._seen: dict[str, int] = {}
        self._marks: dict[str, str | None] = {}

    def fire(self, name: str) -> None:
        """Something changed; `topic-t` for a topic."""
        watch = self.watches.pop(name, None)
        if watch is not None:
            watch()

    def _write(self, term: Term, apply: Callable[[], None]) -> None:
        if term.epoch != self.data.epoch:
            raise ControllerMoved("another controller was elected")
        if self.die_at is not None:
            self.die_at -= 1
            if self.die_at <= 0:
                if self.die_at == 0 and self.landed:
                    apply()
                raise Died
        self.data.writes += 1
        apply()

    # Elections of controllers and suspicions: not played here

    def current_controller(self, watch: Watch | None) -> BrokerId | None:
        return None

    def elect(self, broker: BrokerId) -> Term | None:
        return self.term

    def controller_to_suspect(self, broker: BrokerId) -> tuple[int, int] | None:
        return None

    def take_over(self, successor: BrokerId, broker: BrokerId, broker_epoch: int, version: int) -> Term | None:
        return None

    def spend_suspicion(self, term: Term, broker: BrokerId, broker_epoch: int) -> bool:
        return False

    def note_shutdown(self, term: Term, broker: BrokerId, broker_epoch: int) -> None:
        self._write(term, lambda: self.data.shutting_down.add((broker, broker_epoch)))

    def shutting_down(self, registered: Mapping[BrokerId, Broker]) -> AbstractSet[BrokerId]:
        return {id_ for id_, broker in registered.items() if (id_, broker.epoch) in self.data.shutting_down}

    def forget_notes(self, term: Term, registered: Mapping[BrokerId, Broker]) -> None:
        self.data.shutting_down &= {(id_, broker.epoch) for id_, broker in registered.items()}

    def resign(self, term: Term) -> None: ...

    def release(self, broker: BrokerId) -> None: ...

    # Reads

    def brokers(self, watch: Watch | None) -> Mapping[BrokerId, Broker]:
        return dict(self.data.brokers)

    def topic_names(self, watch: Watch | None) -> AbstractSet[str]:
        return frozenset(self.data.topics)

    def topics(self, names: Sequence[str], watch: Callable[[str], Watch]) -> TopicsRead:
        found = {name: topic for name in names if (topic := self.read_topic(name, watch(name))) is not None}
        malformed = self.data.garbled_topics.intersection(names)
        return TopicsRead(found, {name: self.data.configs.get(name, {}) for name in found}, malformed)

    def read_topic(self, name: str, watch: Watch) -> Topic | None:
        if name not in self.data.topics:
            return None
        self.watches[f"topic-{name}"] = watch
        if name in self.data.garbled_topics:
            return None
        topic, self._seen[name] = self.data.topics[name]
        return topic

    def assign_topic_id(self, term: Term, name: str, topic_id: str) -> Topic | None:
        topic, version = self.data.topics[name]
        if topic.topic_id:
            return topic
        topic = replace(topic, topic_id=topic_id)

        def apply() -> None:
            self.data.topics[name] = (topic, version + 1)

        self._write(term, apply)
        self._seen[name] = version + 1
        return topic

    def states(self, partitions: Sequence[TopicPartition]) -> StatesRead:
        garbled = self.data.garbled.intersection(partitions)
        there = [tp for tp in partitions if tp in self.data.states and tp not in garbled]
        return StatesRead({tp: self.data.states[tp] for tp in there}, garbled)

    def take_log_dir_events(self, term: Term, watch: Watch | None) -> AbstractSet[BrokerId]:
        return frozenset()

    def deletions(self, watch: Watch | None) -> AbstractSet[str]:
        return frozenset(self.data.deletions)

    def asked_ids(self, names: AbstractSet[str]) -> Mapping[str, tuple[str | None, str | None]]:
        self._marks = {name: self.data.deletion_ids.get(name) for name in names & self.data.deletions}
        return {name: (asked, self._topic_id(name)) for name, asked in self._marks.items()}

    def _topic_id(self, name: str) -> str | None:
        """ "" where it cannot be read; None where there is no such topic."""
        if name not in self.data.topics:
            return None
        return "" if name in self.data.garbled_topics else self.data.topics[name][0].topic_id

    # Writes

    def write_states(self, term: Term, writes: Sequence[StateWrite]) -> Mapping[TopicPartition, LeaderAndIsr | None]:
        written: dict[TopicPartition, LeaderAndIsr | None] = {}
        for write in writes:
            if not self._holds(write):
                written[write.topic_partition] = None
                continue
            written[write.topic_partition] = self._next(write)
            self._write(term, lambda write=write: self._put(write))  # type: ignore[misc]
        return written

    def write_assignments(
        self, term: Term, writes: Sequence[AssignmentWrite]
    ) -> Sequence[Mapping[TopicPartition, LeaderAndIsr] | None]:
        results: list[Mapping[TopicPartition, LeaderAndIsr] | None] = []
        for write in writes:
            name = write.topic.name
            current = self.data.topics.get(name)
            if current is None or current[1] != self._seen[name] or not all(map(self._holds, write.states)):
                results.append(None)
                continue
            written = {one.topic_partition: self._next(one) for one in write.states}

            def apply(write: AssignmentWrite = write, version: int = current[1] + 1) -> None:
                self.data.topics[write.topic.name] = (write.topic, version)
                for one in write.states:
                    self._put(one)

            self._write(term, apply)
            self._seen[name] = current[1] + 1
            results.append(written)
        return results

    def _holds(self, write: StateWrite) -> bool:
        there = self.data.states.get(write.topic_partition)
        if write.topic_partition in self.data.garbled:
            return False
        if write.before is None or there is None:
            return write.before is None and there is None
        return there.state.partition_epoch == write.before.partition_epoch

    def _next(self, write: StateWrite) -> LeaderAndIsr:
        return replace(write.after, partition_epoch=0 if write.before is None else write.before.partition_epoch + 1)

    def _put(self, write: StateWrite) -> None:
        self.data.states[write.topic_partition] = StoredState(self._next(write), self.data.next_transaction())

    def finish_deletion(self, term: Term, topic: str, topic_id: str) -> None:
        if self._topic_id(topic) not in (None, topic_id):
            raise StoreUnavailable("another topic has the name")

        def apply() -> None:
            self.data.topics.pop(topic, None)
            self.data.deletions.discard(topic)
            self.data.deletion_ids.pop(topic, None)
            for topic_partition in [tp for tp in self.data.states if tp.topic == topic]:
                del self.data.states[topic_partition]

        self._write(term, apply)

    def drop_deletion(self, term: Term, topic: str) -> bool:
        held = topic in self._marks and self._marks[topic] == self.data.deletion_ids.get(topic)

        def apply() -> None:
            if held:
                self.data.deletions.discard(topic)
                self.data.deletion_ids.pop(topic, None)

        self._write(term, apply)
        return held

    # What tools ask for

    def requested_elections(self, watch: Watch | None) -> Sequence[TopicPartition] | None:
        if watch is not None:
            self.watches["elections"] = watch
        return self.data.elections

    def finish_elections(self, term: Term) -> None:
        def apply() -> None:
            self.data.elections = None

        self._write(term, apply)

    def requested_reassignments(self, watch: Watch | None) -> Mapping[TopicPartition, tuple[BrokerId, ...]] | None:
        if watch is not None:
            self.watches["reassignments"] = watch
        return self.data.reassignments

    def keep_reassignments(self, term: Term, targets: Mapping[TopicPartition, Sequence[BrokerId]]) -> None:
        def apply() -> None:
            self.data.reassignments = {tp: tuple(one) for tp, one in targets.items()} or None

        self._write(term, apply)
