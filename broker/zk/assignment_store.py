"""The controller's writes of assignments, and the requests that tools put into znodes.

The half of `ZkControllerStore` that administration uses. A topic's assignment is replaced only at the version at which
it was read, together with the states that go with it, in one multi under the controller epoch.
Source: KafkaZkClient.setTopicAssignmentRaw, getPartitionReassignment, getPreferredReplicaElection.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from broker.core.controller.cluster_state import ControllerMoved, LeaderAndIsr, Topic
from broker.core.controller.stored import AssignmentWrite, Term, Watch
from broker.model.ids import BrokerId, TopicPartition
from broker.zk import admin_codecs, paths, topic_codecs
from broker.zk.client import WriteRefused, ZkClient
from broker.zk.codecs import MalformedZnode
from broker.zk.operations import Check, Create, Delete, Node, Operation, SetData

_log = logging.getLogger("broker.zk")


class ZkAssignments:
    """See the module. Not thread-safe: it belongs to the controller's thread."""

    def __init__(self, client: ZkClient) -> None:
        self._client = client
        self._raw: dict[TopicPartition, bytes] = {}
        """State texts as last seen, so that rewriting keeps fields that we do not know."""
        self._topic_nodes: dict[str, Node] = {}
        """The same of topics, with the version on which a write is conditional."""

    def _forget_texts(self) -> None:
        """A term begins, which reads everything: forget the texts of topics that are gone."""
        self._raw.clear()
        self._topic_nodes.clear()

    def read_topic(self, name: str, watch: Watch) -> Topic | None:
        """One topic as it is now; None where it is not there, or cannot be decoded."""
        path = paths.topic(name)
        node = self._client.get(path, watch)
        if node is None:
            self._topic_nodes.pop(name, None)
            return None
        self._topic_nodes[name] = node
        try:
            return topic_codecs.decode_topic(name, node.data)
        except MalformedZnode as error:
            _log.error("a topic is ignored: %s", error)
            return None

    def write_assignments(
        self, term: Term, writes: Sequence[AssignmentWrite]
    ) -> list[Mapping[TopicPartition, LeaderAndIsr] | None]:
        """Each assignment with its states in one multi; per write the states as written, None where it was refused."""
        texts: list[tuple[bytes, list[bytes]]] = []
        multis: list[list[Operation]] = []
        for write in writes:
            node = self._topic_nodes[write.topic.name]
            topic_text = topic_codecs.encode_topic(write.topic, node.data)
            operations: list[Operation] = [
                Check(paths.CONTROLLER_EPOCH, term.version),
                SetData(paths.topic(write.topic.name), topic_text, node.version),
            ]
            state_texts = []
            for state in write.states:
                assert state.before is not None, "a reassignment gives no partition its first state"
                text = topic_codecs.encode_partition_state(state.after, self._raw.get(state.topic_partition))
                state_texts.append(text)
                path = paths.partition_state(state.topic_partition)
                operations.append(SetData(path, text, state.before.partition_epoch))
            texts.append((topic_text, state_texts))
            multis.append(operations)
        results: list[Mapping[TopicPartition, LeaderAndIsr] | None] = []
        for write, (topic_text, state_texts), outcome in zip(
            writes, texts, self._client.multi_many(multis), strict=True
        ):
            if isinstance(outcome, WriteRefused):
                if outcome.index == 0:
                    raise ControllerMoved(f"controller epoch {term.epoch} is over: {outcome}")
                _log.warning("the assignment of %s was not written: %s", write.topic.name, outcome)
                results.append(None)
                continue
            _, topic_version, *versions = outcome
            self._topic_nodes[write.topic.name] = replace(
                self._topic_nodes[write.topic.name], data=topic_text, version=topic_version
            )
            written = {}
            for state, text, version in zip(write.states, state_texts, versions, strict=True):
                self._raw[state.topic_partition] = text
                written[state.topic_partition] = replace(state.after, partition_epoch=version)
            results.append(written)
        return results

    # What tools ask for

    def requested_elections(self, watch: Watch | None) -> list[TopicPartition] | None:
        """None while there is no request; one that cannot be decoded is logged, and requests nothing."""
        data = self._read_request(paths.PREFERRED_ELECTION, watch)
        try:
            return None if data is None else admin_codecs.decode_preferred_election(data)
        except MalformedZnode as error:
            _log.error("a request is ignored: %s", error)
            return []

    def requested_reassignments(self, watch: Watch | None) -> Mapping[TopicPartition, tuple[BrokerId, ...]] | None:
        """None while there is no request; one that cannot be decoded is logged, and requests nothing."""
        data = self._read_request(paths.REASSIGNMENT, watch)
        try:
            return None if data is None else admin_codecs.decode_reassignment(data)
        except MalformedZnode as error:
            _log.error("a request is ignored: %s", error)
            return {}

    def _read_request(self, path: str, watch: Watch | None) -> bytes | None:
        if not self._client.exists(path, watch):
            return None
        node = self._client.get(path)
        return None if node is None else node.data

    def finish_elections(self, term: Term) -> None:
        """Remove `/admin/preferred_replica_election`, if the term still holds."""
        self._write_request(term, Delete(paths.PREFERRED_ELECTION))

    def keep_reassignments(self, term: Term, targets: Mapping[TopicPartition, Sequence[BrokerId]]) -> None:
        """Reduce the request to targets that are not reached yet; without any the znode is removed."""
        node = self._client.get(paths.REASSIGNMENT)
        if node is None:
            if targets:
                self._write_request(term, Create(paths.REASSIGNMENT, admin_codecs.encode_reassignment(targets)))
        elif targets:
            self._write_request(
                term, SetData(paths.REASSIGNMENT, admin_codecs.encode_reassignment(targets), node.version)
            )
        else:
            self._write_request(term, Delete(paths.REASSIGNMENT))

    def _write_request(self, term: Term, operation: Operation) -> None:
        try:
            self._client.multi([Check(paths.CONTROLLER_EPOCH, term.version), operation])
        except WriteRefused as refused:
            if refused.index == 0:
                raise ControllerMoved(f"controller epoch {term.epoch} is over: {refused}") from None
            _log.warning("a request was changed meanwhile: %s", refused)
