"""Reassignments, from the request to the last deleted log: the part of a controller's term that writes them.

The steps and their invariants are in `core.controller.reassignment`. All that is remembered here about a reassignment
is which of the doomed replicas are deleted: a new controller reads the rest from the topics and goes on. `advance` is
called after every batch of events, so that each reassignment goes on as soon as what it waits for has come (an ISR that
grew, a broker that died or responded). A topic that is being deleted is left to its deletion, which covers doomed
replicas too. A tool's request in `/admin/reassign_partitions` has only the topic's name: it is removed before the name
is free, or the next topic of that name would be moved. Belongs to the controller's thread. Source:
KafkaController.processApiPartitionReassignment, onPartitionReassignment, processZkPartitionReassignment.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from broker.core.controller import reassignment as rules
from broker.core.controller.cluster_state import NO_LEADER, LeaderAndIsr, StoreUnavailable
from broker.core.controller.decisions import Change
from broker.core.controller.reassignment import Assignment
from broker.core.controller.stored import AssignmentWrite, StateWrite
from broker.model.ids import BrokerId, TopicPartition
from broker.runtime.controller.request_batch import RequestBatch
from broker.runtime.controller.state_writer import PartitionStateWriter
from broker.wire.errors import ErrorCode

_log = logging.getLogger("broker.controller")

REASSIGNMENT = "reassignment"
_TRIES = 5
_PARTITIONS_PER_WRITE = 200

Refusal = tuple[ErrorCode, str | None]
Target = tuple[BrokerId, ...]
Targets = Mapping[TopicPartition, Target | None]
"""None: cancel."""
_NOT_THERE: Refusal = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
_NOTHING_LEFT: Refusal = (
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    "None of these replicas may lead: every live in-sync replica would be removed, and what only they hold with them.",
)
_NOBODY_LEADS: Refusal = (
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    "Nobody leads the partition, and a replica would be removed that may be the only one to hold what was committed.",
)


def withdraw(writer: PartitionStateWriter, void: Callable[[TopicPartition, Target], bool]) -> None:
    """Take these out of `/admin/reassign_partitions`, as it is by now; other requests there stay.

    They are gone when this returns: a write that met a tool's is made again.
    """
    for _ in range(_TRIES):
        requested = writer.store.requested_reassignments(None) or {}
        left = {
            topic_partition: target
            for topic_partition, target in requested.items()
            if not void(topic_partition, target)
        }
        if len(left) == len(requested):
            return
        _log.info(
            "reassignments that nobody can carry out any more: %s", ", ".join(map(str, requested.keys() - left.keys()))
        )
        writer.store.keep_reassignments(writer.term, left)
    raise StoreUnavailable(f"requests for reassignments changed under the controller {_TRIES} times in a row")


class Step:
    """One partition's next write. state None: the state stays."""

    __slots__ = ("assignment", "state", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, assignment: Assignment, state: LeaderAndIsr | None) -> None:
        self.topic_partition = topic_partition
        self.assignment = assignment
        self.state = state


class Reassignments:
    """See the module."""

    def __init__(self, writer: PartitionStateWriter) -> None:
        self._writer = writer
        self._open: set[TopicPartition] = set()
        """Partitions that move, or have doomed replicas."""
        self._deleted: set[tuple[TopicPartition, BrokerId]] = set()
        self._requested: dict[TopicPartition, tuple[Target, str]] = {}
        """Requests in `/admin/reassign_partitions` that are not done: target, and id that the topic had at the request.
        """

    # Called by the term

    def load(self) -> None:
        """The state was read anew. `on_request` follows once the brokers have been sent theirs."""
        self._deleted.clear()
        self._requested = {}
        self._open = {
            TopicPartition(topic.name, partition)
            for topic in self._writer.state.topics.values()
            for partition in topic.adding.keys() | topic.removing.keys()
        }

    def send_deletions(self, broker: BrokerId, batch: RequestBatch) -> None:
        """To a broker that is sent everything: StopReplica for the replicas that it has yet to delete."""
        for topic_partition in self._open:
            assignment = self._assignment(topic_partition)
            if assignment is not None and broker in assignment.doomed:
                batch.stop_replica(broker, topic_partition, delete=True)

    def replicas_deleted(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> None:
        """A broker has deleted these replicas; `advance` ends the reassignments that waited for it."""
        self._deleted.update(
            (topic_partition, broker) for topic_partition in partitions if topic_partition in self._open
        )

    def replicas_kept(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> None:
        """Files that cannot be deleted are left behind: nobody waits for them for ever."""
        left = [topic_partition for topic_partition in partitions if topic_partition in self._open]
        if left:
            _log.warning("broker %d could not delete its replicas of %s", broker, ", ".join(map(str, left)))
            self.replicas_deleted(broker, left)

    # What clients ask

    def alter(self, targets: Targets) -> Mapping[TopicPartition, Refusal | None]:
        """Begin, replace or cancel; per partition None, or why not. Begun means written, not done."""
        forget = [topic_partition for topic_partition in targets if topic_partition in self._requested]
        results = self._alter(targets)
        forget = [topic_partition for topic_partition in forget if results[topic_partition] is None]
        if forget:
            # The later request replaces the znode's.
            self._drop_requested(forget)
        self.advance()
        return results

    def under_way(self, wanted: Iterable[TopicPartition] | None) -> Mapping[TopicPartition, Assignment]:
        """Those of the wanted partitions (None: all) that move."""
        found = {}
        for topic_partition in sorted(self._open if wanted is None else wanted):
            assignment = self._assignment(topic_partition)
            if assignment is not None and assignment.moving:
                found[topic_partition] = assignment
        return found

    def on_request(self) -> None:
        """A tool has written targets into `/admin/reassign_partitions`."""
        writer = self._writer
        requested = writer.store.requested_reassignments(writer.watches.reassignments)
        if requested is None:
            self._requested = {}
            return
        known, self._requested = self._requested, {tp: (target, self._topic_id(tp)) for tp, target in requested.items()}
        news = {tp: target for tp, target in requested.items() if known.get(tp) != self._requested[tp]}
        done = []
        for topic_partition, refusal in self._alter(news).items():
            assignment = self._assignment(topic_partition)
            if refusal is not None:
                _log.warning("reassignment of %s: %s %s", topic_partition, refusal[0].name, refusal[1] or "")
            if refusal is not None or (assignment is not None and not assignment.moving):
                done.append(topic_partition)
        if done or not requested:
            self._drop_requested(done)

    # Steps

    def advance(self) -> None:
        """Every step that may be taken now."""
        self._withdraw_void()
        for _ in range(_TRIES):
            steps = [step for tp in sorted(self._open) if (step := self._next_step(tp)) is not None]
            if not steps:
                return
            batch = self._writer.new_batch()
            arrived = [step.topic_partition for step in steps if step.state is not None]
            self._write(steps, batch)
            self._writer.send(batch)
            done = [tp for tp in arrived if tp in self._requested and self._arrived(tp)]
            if done:
                self._drop_requested(done)

    def _next_step(self, topic_partition: TopicPartition) -> Step | None:
        state = self._writer.state
        assignment = self._assignment(topic_partition)
        if assignment is None or topic_partition.topic in state.deleting:
            self._open.discard(topic_partition)
            return None
        if topic_partition in state.unreadable:
            return None
        if assignment.moving:
            after = rules.after_switch(assignment, state.states.get(topic_partition), state.live_for(topic_partition))
            return None if after is None else Step(topic_partition, assignment.switched(), after)
        doomed = assignment.doomed
        if not doomed:
            self._open.discard(topic_partition)
            return None
        owing = [b for b in doomed if b in state.brokers and (topic_partition, b) not in self._deleted]
        return Step(topic_partition, assignment.cleaned(frozenset(doomed)), None) if not owing else None

    def _arrived(self, topic_partition: TopicPartition) -> bool:
        assignment = self._assignment(topic_partition)
        return assignment is None or not assignment.moving

    def _alter(self, targets: Targets) -> dict[TopicPartition, Refusal | None]:
        results: dict[TopicPartition, Refusal | None] = {}
        batch = self._writer.new_batch()
        open_ = dict(targets)
        for _ in range(_TRIES):
            steps = []
            for topic_partition, target in open_.items():
                step = self._begin(topic_partition, target)
                if isinstance(step, Step):
                    steps.append(step)
                else:
                    results[topic_partition] = step
            written = self._write(steps, batch)
            results.update(dict.fromkeys(written))
            open_ = {step.topic_partition: targets[step.topic_partition] for step in steps}
            for topic_partition in written:
                del open_[topic_partition]
            if not open_:
                self._writer.send(batch)
                return results
        raise StoreUnavailable(f"assignments changed under the controller {_TRIES} times in a row")

    def _begin(self, topic_partition: TopicPartition, target: tuple[BrokerId, ...] | None) -> Step | Refusal | None:
        """None: it is so already."""
        state = self._writer.state
        current = self._assignment(topic_partition)
        if target is not None:
            refusal = rules.refusal(target, current, frozenset(state.brokers))
            if refusal is not None:
                return refusal
        elif current is None or not current.moving:
            return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None
        if current is None or topic_partition.topic in state.deleting or topic_partition in state.unreadable:
            return _NOT_THERE
        wanted = current.towards(current.origin if target is None else target)
        if wanted == current:
            return None
        before = state.states.get(topic_partition)
        if before is None:
            return Step(topic_partition, wanted, None)
        after = rules.state_under(before, wanted.replicas, state.live_for(topic_partition))
        if after is None:
            return _NOBODY_LEADS if before.leader == NO_LEADER else _NOTHING_LEFT
        return Step(topic_partition, wanted, after)

    # Writing

    def _write(self, steps: list[Step], batch: RequestBatch) -> list[TopicPartition]:
        """Write steps, topic by topic; those that were written. The others met another writer's change: decide anew."""
        by_topic: dict[str, list[Step]] = defaultdict(list)
        for step in steps:
            by_topic[step.topic_partition.topic].append(step)
        written: list[TopicPartition] = []
        while by_topic:
            round_ = {topic: left[:_PARTITIONS_PER_WRITE] for topic, left in by_topic.items()}
            refused = self._write_round(round_, batch)
            for topic, taken in round_.items():
                if topic in refused:
                    del by_topic[topic]
                    continue
                written += [step.topic_partition for step in taken]
                by_topic[topic] = by_topic[topic][_PARTITIONS_PER_WRITE:]
                if not by_topic[topic]:
                    del by_topic[topic]
        return written

    def _write_round(self, steps: Mapping[str, list[Step]], batch: RequestBatch) -> set[str]:
        """One write per topic; the topics whose write was refused are read anew, for it may have been carried out."""
        writer = self._writer
        state = writer.state
        writes = []
        for name, of_topic in steps.items():
            topic = rules.with_assignments(
                state.topics[name], {step.topic_partition.partition: step.assignment for step in of_topic}
            )
            writes.append(AssignmentWrite(topic, [write for step in of_topic for write in self._state_write(step)]))
        refused = set()
        for write, states in zip(writes, writer.store.write_assignments(writer.term, writes), strict=True):
            name = write.topic.name
            if states is None:
                refused.add(name)
                writer.reread([one.topic_partition for one in write.states])
                self._read_anew(name)
                for step in steps[name]:
                    self._take_up(step.topic_partition, batch)
                for one in write.states:
                    now = state.states.get(one.topic_partition)
                    if now is not None and now.leader_epoch == one.after.leader_epoch:
                        # This term's own write, whose response was lost: no broker has it yet.
                        writer.announce(Change(one.topic_partition, one.before, now, REASSIGNMENT), batch)
                continue
            state.topics[name] = write.topic
            changes = {one.topic_partition: one for one in write.states}
            for step in steps[name]:
                self._applied(step, changes.get(step.topic_partition), states, batch)
        return refused

    def _state_write(self, step: Step) -> list[StateWrite]:
        if step.state is None:
            return []
        state = self._writer.state
        before = state.states[step.topic_partition]
        after = replace(step.state, controller_epoch=self._writer.term.epoch)
        after = state.completed(step.topic_partition, before, after, step.assignment.replicas)
        return [StateWrite(step.topic_partition, before, after)]

    def _applied(
        self,
        step: Step,
        change: StateWrite | None,
        states: Mapping[TopicPartition, LeaderAndIsr],
        batch: RequestBatch,
    ) -> None:
        topic_partition, assignment = step.topic_partition, step.assignment
        self._take_up(topic_partition, batch)
        if change is not None:
            self._writer.state.states[topic_partition] = states[topic_partition]
            self._writer.announce(Change(topic_partition, change.before, change.after, REASSIGNMENT), batch)
        if not assignment.removing:
            self._deleted = {(tp, broker) for tp, broker in self._deleted if tp != topic_partition}
        _log.info(
            "%s: replicas %s, adding %s, removing %s",
            topic_partition,
            list(assignment.replicas),
            list(assignment.adding),
            list(assignment.removing),
        )

    def _take_up(self, topic_partition: TopicPartition, batch: RequestBatch) -> None:
        """See to an assignment that was just written, or read."""
        assignment = self._assignment(topic_partition)
        if assignment is None:
            return
        self._open.add(topic_partition)
        for broker in (*assignment.adding, *assignment.doomed):
            # A report on the log that the broker had before says nothing about the log that it begins.
            self._writer.state.reports.pop((topic_partition, broker), None)
        for broker in assignment.doomed:
            self._deleted.discard((topic_partition, broker))
            batch.stop_replica(broker, topic_partition, delete=True)

    def _read_anew(self, name: str) -> None:
        topic = self._writer.store.read_topic(name, self._writer.watches.topic(name))
        if topic is None:
            if name in self._writer.store.topic_names(None):
                # If it were forgotten here, lists that brokers take for whole would lack it. A load leaves it out, and
                # notes that its lists are not whole.
                raise StoreUnavailable(f"topic {name} makes no sense any more, everything is read anew")
            self._writer.forget_topic(name)
        else:
            known = self._writer.state.topics.get(name)
            self._writer.state.topics[name] = (
                topic if known is None else self._writer.with_topic_id(topic, known.topic_id)
            )

    def _drop_requested(self, partitions: Iterable[TopicPartition]) -> None:
        for topic_partition in (*partitions, *self._void()):
            self._requested.pop(topic_partition, None)
        left = {topic_partition: target for topic_partition, (target, _) in self._requested.items()}
        self._writer.store.keep_reassignments(self._writer.term, left)
        if (
            not self._requested
            and self._writer.store.requested_reassignments(self._writer.watches.reassignments) is not None
        ):
            # A tool has written a new request between the read and the deletion here: the watch has fired already, and
            # no other event comes.
            self._writer.watches.reassignments()

    def _withdraw_void(self) -> None:
        void = self._void()
        if void:
            for topic_partition in void:
                del self._requested[topic_partition]
            withdraw(self._writer, lambda topic_partition, target: void.get(topic_partition) == target)

    def _void(self) -> dict[TopicPartition, Target]:
        """Requests for topics that are being deleted, or are gone, whichever topics have their names by now."""
        state = self._writer.state
        void = {}
        for topic_partition, (target, requested_for) in self._requested.items():
            gone = topic_partition.topic not in state.topics or topic_partition.topic in state.deleting
            # Topics of older writer have no id until a load gives them one.
            ids = {requested_for, self._topic_id(topic_partition)} - {""}
            if gone or len(ids) > 1:
                void[topic_partition] = target
        return void

    def _topic_id(self, topic_partition: TopicPartition) -> str:
        topic = self._writer.state.topics.get(topic_partition.topic)
        return "" if topic is None else topic.topic_id

    def _assignment(self, topic_partition: TopicPartition) -> Assignment | None:
        topic = self._writer.state.topics.get(topic_partition.topic)
        return None if topic is None else rules.assignment_of(topic, topic_partition.partition)
