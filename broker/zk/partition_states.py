"""The controller's reads and writes of partition states.

A part of `ZkControllerStore`. Every write begins with a check of `/controller_epoch`'s version, and replaces a state
only at the version that it was read at. Source: kafka.zk.KafkaZkClient (updateLeaderAndIsr), where each state is a
transaction of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from broker.core.controller.cluster_state import ControllerMoved, LeaderAndIsr
from broker.core.controller.stored import StatesRead, StateWrite, StoredState, Term
from broker.model.ids import TopicPartition
from broker.zk import codecs, paths, topic_codecs
from broker.zk.assignment_store import ZkAssignments
from broker.zk.client import WriteRefused
from broker.zk.operations import Check, Create, Operation, SetData

_log = logging.getLogger("broker.zk")

_STATES_PER_MULTI = 100
_STATE_BYTES_PER_MULTI = 256 << 10
"""A request that is longer than ZooKeeper's jute.maxbuffer, 1 MiB, ends the connection."""

_Texts = Sequence[tuple[StateWrite, bytes]]
"""Writes with what they write."""


class ZkPartitionStates(ZkAssignments):
    """See the module. Not thread-safe: it belongs to the controller's thread."""

    def states(self, partitions: Sequence[TopicPartition]) -> StatesRead:
        """Partition states in batches; malformed ones are named in the result."""
        by_path = {paths.partition_state(topic_partition): topic_partition for topic_partition in partitions}
        found = {}
        malformed = set()
        for path, node in self._client.get_many(list(by_path)).items():
            topic_partition = by_path[path]
            self._raw.pop(topic_partition, None)
            if node is not None:
                try:
                    state = topic_codecs.decode_partition_state(topic_partition, node.data, node.version)
                except codecs.MalformedZnode as error:
                    _log.error("%s: nobody is elected for %s until it reads well: %s", path, topic_partition, error)
                    malformed.add(topic_partition)
                    continue
                self._raw[topic_partition] = node.data
                found[topic_partition] = StoredState(state, node.mzxid)
        return StatesRead(found, malformed)

    def write_states(self, term: Term, writes: Sequence[StateWrite]) -> dict[TopicPartition, LeaderAndIsr | None]:
        """Write each state if its version and the controller epoch are unchanged; None where not.

        States that replace others go together: an election of many partitions is few of ZooKeeper's transactions then.
        Where one of them is refused, all of its multi are written again, each by itself.
        """
        self._make_parents(term, {w.topic_partition.topic for w in writes if w.before is None})
        states = [
            (write, topic_codecs.encode_partition_state(write.after, self._raw.get(write.topic_partition)))
            for write in writes
        ]
        multis = _together(states)
        written: dict[TopicPartition, LeaderAndIsr | None] = {}
        alone: list[tuple[StateWrite, bytes]] = []
        for together, outcome in zip(multis, self._write_multis(term, multis), strict=True):
            if not isinstance(outcome, WriteRefused):
                versions = outcome[1:] if len(together) > 1 else outcome[-1:]
                for (write, text), version in zip(together, versions, strict=True):
                    written[write.topic_partition] = self._written(write, text, version)
            elif len(together) > 1:
                raise_if_moved(outcome, term)
                alone += together
            else:
                written[together[0][0].topic_partition] = self._refused(term, *together[0], outcome)
        for (write, text), outcome in zip(alone, self._write_multis(term, [[one] for one in alone]), strict=True):
            written[write.topic_partition] = (
                self._refused(term, write, text, outcome)
                if isinstance(outcome, WriteRefused)
                else self._written(write, text, outcome[-1])
            )
        return written

    def _write_multis(self, term: Term, multis: Sequence[_Texts]) -> list[list[int] | WriteRefused]:
        return self._client.multi_many([_state_multi(term, together) for together in multis])

    def _written(self, write: StateWrite, text: bytes, version: int) -> LeaderAndIsr:
        self._raw[write.topic_partition] = text
        return replace(write.after, partition_epoch=version)

    def _refused(self, term: Term, write: StateWrite, text: bytes, why: WriteRefused) -> LeaderAndIsr | None:
        """None, but where another Kafka made the partition's folder and stopped before its state."""
        if why.operation == _folder(write):
            outcome = self._client.multi_many([[checked(term), Create(_path(write), text)]])[0]
            if not isinstance(outcome, WriteRefused):
                return self._written(write, text, outcome[-1])
            why = outcome
        raise_if_moved(why, term)
        _log.warning("the state of %s was not written: %s", write.topic_partition, why)
        return None

    def _make_parents(self, term: Term, topics: AbstractSet[str]) -> None:
        multis: list[list[Operation]] = [
            [checked(term), Create(paths.topic_partitions(topic), b"")] for topic in sorted(topics)
        ]
        for outcome in self._client.multi_many(multis):
            if isinstance(outcome, WriteRefused):
                raise_if_moved(outcome, term)


def checked(term: Term) -> Check:
    """The condition of every write of a term: no other has begun."""
    return Check(paths.CONTROLLER_EPOCH, term.version)


def _path(write: StateWrite) -> str:
    return paths.partition_state(write.topic_partition)


def _folder(write: StateWrite) -> Create:
    return Create(paths.topic_partition(write.topic_partition), b"")


def _together(states: _Texts) -> list[list[tuple[StateWrite, bytes]]]:
    """In multis that ZooKeeper takes as one request: first states alone, others up to a number and a size."""
    multis: list[list[tuple[StateWrite, bytes]]] = []
    count, size = 0, 0
    for write, text in states:
        count, size = count + 1, size + len(text)
        if write.before is None or count > _STATES_PER_MULTI or size > _STATE_BYTES_PER_MULTI or not multis:
            multis.append([])
            count, size = 1, len(text)
        multis[-1].append((write, text))
        if write.before is None:
            count = _STATES_PER_MULTI
    return multis


def _state_multi(term: Term, together: _Texts) -> list[Operation]:
    multi: list[Operation] = [checked(term)]
    for write, text in together:
        if write.before is None:
            multi += [_folder(write), Create(_path(write), text)]
        else:
            multi.append(SetData(_path(write), text, write.before.partition_epoch))
    return multi


def raise_if_moved(refused: WriteRefused, term: Term) -> None:
    """Where it was the term's own condition, the first, that did not hold: another term has begun."""
    if refused.index == 0:
        raise ControllerMoved(f"controller epoch {term.epoch} is over: {refused}")
