"""The controller's reads and writes: election, registrations, topics, partition states, deletions.

Satisfies `broker.runtime.controller.ports.ControllerStore`. Every write of a term is one multi that begins with a check
of `/controller_epoch`'s version, so a deposed controller cannot write; a state is replaced only at the version that it
was read at. Reads and state writes are pipelined.
Source: kafka.zk.KafkaZkClient (registerControllerAndIncrementControllerEpoch, updateLeaderAndIsr).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from broker.core.controller.cluster_state import Broker, StoreUnavailable, Topic
from broker.core.controller.stored import Term, TopicsRead, Watch
from broker.model.ids import BrokerId, TopicPartition
from broker.zk import admin_codecs, codecs, paths, topic_codecs
from broker.zk.client import WriteRefused, ZkClient
from broker.zk.operations import Check, Create, Delete, Operation, SetData
from broker.zk.partition_states import ZkPartitionStates, checked, raise_if_moved

_log = logging.getLogger("broker.zk")

_FIRST_EPOCH = 0
_DELETES_PER_MULTI = 200


class ZkControllerStore(ZkPartitionStates):
    """One controller's view of ZooKeeper. Not thread-safe: it belongs to the controller's thread."""

    def __init__(self, client: ZkClient, wall_clock_ms: Callable[[], int]) -> None:
        super().__init__(client)
        self._wall_clock_ms = wall_clock_ms
        self._marks: dict[str, int] = {}
        """Versions of the marks in `/admin/delete_topics` that `asked_ids` has read last."""

    # Election

    def current_controller(self, watch: Watch | None) -> BrokerId | None:
        """The broker id in `/controller`; None where nobody is controller."""
        if not self._client.exists(paths.CONTROLLER, watch):
            return None
        node = self._client.get(paths.CONTROLLER)
        return None if node is None else codecs.decode_controller(node.data)

    def elect(self, broker: BrokerId) -> Term | None:
        """Raise the controller epoch and create `/controller`, in one multi; None where another was faster."""
        node = self._client.get(paths.CONTROLLER_EPOCH)
        if node is None:
            try:
                self._client.create(paths.CONTROLLER_EPOCH, codecs.encode_controller_epoch(_FIRST_EPOCH))
            except WriteRefused as refused:
                if refused.reason not in ("node-exists", "bad-version"):
                    raise
            node = self._client.get(paths.CONTROLLER_EPOCH)
            assert node is not None, "nobody deletes /controller_epoch"
        epoch = codecs.decode_controller_epoch(node.data) + 1
        try:
            _, version = self._client.multi(
                [
                    Create(paths.CONTROLLER, codecs.encode_controller(broker, self._wall_clock_ms()), ephemeral=True),
                    SetData(paths.CONTROLLER_EPOCH, codecs.encode_controller_epoch(epoch), node.version),
                ]
            )
        except WriteRefused:
            return None
        self._forget_texts()
        return Term(epoch, version)

    def controller_to_suspect(self, broker: BrokerId) -> tuple[int, int] | None:
        """Broker epoch, and version of `/controller_epoch`, if this broker is controller."""
        # The version first: whoever becomes controller after this read makes it stale. A server reads them in order.
        of_broker = paths.broker_id(broker)
        found = self._client.get_many([paths.CONTROLLER_EPOCH, paths.CONTROLLER, of_broker])
        epoch, controller, registered = found[paths.CONTROLLER_EPOCH], found[paths.CONTROLLER], found[of_broker]
        if epoch is None or controller is None or registered is None:
            return None
        if codecs.decode_controller(controller.data) != broker or controller.owner != registered.owner:
            return None
        return registered.czxid, epoch.version

    def take_over(self, successor: BrokerId, broker: BrokerId, broker_epoch: int, version: int) -> Term | None:
        """Replace a controller whose process is gone; None where anything has changed since."""
        node = self._client.get(paths.CONTROLLER_EPOCH)
        if node is None or node.version != version:
            return None
        epoch = codecs.decode_controller_epoch(node.data) + 1
        try:
            versions = self._client.multi(
                [
                    Create(paths.suspicion(broker, broker_epoch), codecs.encode_note(successor)),
                    Delete(paths.CONTROLLER),
                    Create(
                        paths.CONTROLLER,
                        codecs.encode_controller(successor, self._wall_clock_ms()),
                        ephemeral=True,
                    ),
                    SetData(paths.CONTROLLER_EPOCH, codecs.encode_controller_epoch(epoch), version),
                ]
            )
        except WriteRefused as refused:
            _log.info("the controllership of broker %d was not taken over: %s", broker, refused)
            return None
        self._forget_texts()
        return Term(epoch, versions[-1])

    def spend_suspicion(self, term: Term, broker: BrokerId, broker_epoch: int) -> bool:
        """Note that this registration was suspected; False where it was before."""
        return self._note(term, paths.suspicion(broker, broker_epoch))

    def note_shutdown(self, term: Term, broker: BrokerId, broker_epoch: int) -> None:
        """Note that this registration is shutting down, for the next controller."""
        self._note(term, paths.shutting_down(broker, broker_epoch))

    def shutting_down(self, registered: Mapping[BrokerId, Broker]) -> AbstractSet[BrokerId]:
        """Those of the registered brokers that are noted as shutting down."""
        noted = set(self._client.children(paths.SHUTTING_DOWN) or [])
        return {id_ for id_, broker in registered.items() if paths.note_name(id_, broker.epoch) in noted}

    def forget_notes(self, term: Term, registered: Mapping[BrokerId, Broker]) -> None:
        """Remove notes on registrations that are gone."""
        current = {paths.note_name(broker.id, broker.epoch) for broker in registered.values()}
        for folder in (paths.SUSPICIONS, paths.SHUTTING_DOWN):
            for name in self._client.children(folder) or []:
                if name not in current:
                    self._write(term, [Delete(f"{folder}/{name}")])

    def _note(self, term: Term, path: str) -> bool:
        """False where it is noted already."""
        try:
            self._client.multi([checked(term), Create(path, codecs.encode_note(term.epoch))])
        except WriteRefused as refused:
            raise_if_moved(refused, term)
            return False
        return True

    def resign(self, term: Term) -> None:
        """Delete `/controller` if this term still holds it."""
        try:
            self._client.multi([checked(term), Delete(paths.CONTROLLER)])
        except WriteRefused:
            _log.info("controllership of epoch %d was lost already", term.epoch)

    def release(self, broker: BrokerId) -> None:
        """Delete a `/controller` of this session that belongs to no term."""
        epoch = self._client.get(paths.CONTROLLER_EPOCH)
        node = self._client.get(paths.CONTROLLER)
        if epoch is None or node is None or node.owner != self._client.session_id:
            return
        _log.warning("broker %d holds %s without a term: giving it up", broker, paths.CONTROLLER)
        try:
            self._client.multi([Check(paths.CONTROLLER_EPOCH, epoch.version), Delete(paths.CONTROLLER)])
        except WriteRefused:
            _log.info("%s changed meanwhile", paths.CONTROLLER)

    # Reads

    def brokers(self, watch: Watch | None) -> dict[BrokerId, Broker]:
        """Registrations; a malformed one is logged and left out."""
        names = self._client.children(paths.BROKER_IDS, watch) or []
        nodes = self._client.get_many([f"{paths.BROKER_IDS}/{name}" for name in names if name.isdecimal()])
        found = {}
        for path, node in nodes.items():
            if node is not None:
                broker_id = int(path.rpartition("/")[2])
                try:
                    found[broker_id] = codecs.decode_broker(broker_id, node.data, node.czxid)
                except codecs.MalformedZnode as error:
                    _log.error("a registration is ignored: %s", error)
        return found

    def topic_names(self, watch: Watch | None) -> AbstractSet[str]:
        """Children of `/brokers/topics`."""
        return frozenset(self._client.children(paths.TOPICS, watch) or [])

    def topics(self, names: Sequence[str], watch: Callable[[str], Watch]) -> TopicsRead:
        """Read the named topics in batches; malformed ones are named in the result."""
        nodes = self._client.get_watched({paths.topic(name): watch(name) for name in names})
        texts = self._client.get_many([paths.topic_config(name) for name in names])
        topics = {}
        configs = {}
        malformed = set()
        for name in names:
            node = nodes[paths.topic(name)]
            if node is None:
                continue
            self._topic_nodes[name] = node
            text = texts[paths.topic_config(name)]
            try:
                topics[name] = topic_codecs.decode_topic(name, node.data)
                configs[name] = codecs.decode_config(text.data if text else None, paths.topic_config(name))
            except codecs.MalformedZnode as error:
                topics.pop(name, None)
                malformed.add(name)
                _log.error("a topic is ignored: %s", error)
        return TopicsRead(topics, configs, malformed)

    def assign_topic_id(self, term: Term, name: str, topic_id: str) -> Topic | None:
        """Write an id into the topic's znode if it has none; the topic as it is then."""
        node = self._client.get(paths.topic(name))
        if node is None:
            return None
        try:
            topic = topic_codecs.decode_topic(name, node.data)
        except codecs.MalformedZnode as error:
            _log.error("topic %s gets no id: %s", name, error)
            return None
        if topic.topic_id != topic_codecs.NO_TOPIC_ID:
            return topic
        topic = replace(topic, topic_id=topic_id)
        text = topic_codecs.encode_topic(topic, node.data)
        try:
            _, version = self._client.multi([checked(term), SetData(paths.topic(name), text, node.version)])
        except WriteRefused as refused:
            raise_if_moved(refused, term)
            return None
        self._topic_nodes[name] = replace(node, data=text, version=version)
        return topic

    # Deletion

    def deletions(self, watch: Watch | None) -> AbstractSet[str]:
        """Topics marked in `/admin/delete_topics`."""
        return frozenset(self._client.children(paths.DELETE_TOPICS, watch) or [])

    def asked_ids(self, names: AbstractSet[str]) -> dict[str, tuple[str | None, str | None]]:
        """Those of these marks that are there: name → (the id that is asked for, the id in the znode of the topic).

        The first is None where the mark asks by name, the second where there is no topic of this name.
        """
        marks = self._client.get_many([paths.delete_topic(name) for name in sorted(names)])
        self._marks = {}
        asked: dict[str, str | None] = {}
        for name in names:
            node = marks[paths.delete_topic(name)]
            if node is not None:
                self._marks[name] = node.version
                asked[name] = admin_codecs.decode_deletion(node.data)
        topics = self._client.get_many([paths.topic(name) for name in sorted(asked)])
        return {
            name: (topic_id, None if node is None else topic_codecs.topic_id_in(name, node.data))
            for name, topic_id in asked.items()
            for node in (topics[paths.topic(name)],)
        }

    def finish_deletion(self, term: Term, topic: str, topic_id: str) -> None:
        """Remove the znodes, the settings and the mark of the topic of this name and id.

        Returns where the topic of this id is gone. Raises StoreUnavailable where another one has the name before
        anything was deleted, and where the write was refused and the topic, or its mark, is still there.
        """
        partitions = self._client.children(paths.topic_partitions(topic)) or []
        doomed = [
            path
            for partition in partitions
            if partition.isdecimal()
            for path in (
                paths.partition_state(TopicPartition(topic, int(partition))),
                paths.topic_partition(TopicPartition(topic, int(partition))),
            )
        ]
        # The topic goes when all that is its own is gone: what stayed behind it would be the next one's of its name.
        doomed += [paths.topic_config(topic), paths.topic_partitions(topic), paths.topic(topic)]
        doomed.append(paths.delete_topic(topic))
        doomed = self._with_strangers(doomed)
        nodes = self._client.get_many(doomed)
        of_topic = nodes[paths.topic(topic)]
        if of_topic is not None and topic_codecs.topic_id_in(topic, of_topic.data) != topic_id:
            raise StoreUnavailable(f"topic {topic} has another id than {topic_id}, which is to be deleted")
        # In the order above, whatever the order of what was read: a znode with children is not deleted.
        there = [path for path in doomed if nodes[path] is not None]
        # Counted from the end, so that topic and mark go together: a mark that outlived its topic could be taken for
        # one of the next topic of its name.
        for start in range(len(there) % -_DELETES_PER_MULTI, len(there), _DELETES_PER_MULTI):
            deletes = [Delete(path) for path in there[max(start, 0) : start + _DELETES_PER_MULTI]]
            if (refused := self._write(term, deletes)) is not None:
                self._raise_unless_gone(topic, topic_id, refused)
                break
        self._topic_nodes.pop(topic, None)
        for topic_partition in [tp for tp in self._raw if tp.topic == topic]:
            del self._raw[topic_partition]

    def _raise_unless_gone(self, topic: str, topic_id: str, refused: WriteRefused) -> None:
        """A write may be refused because it was carried out before its response was lost: the topic is gone then, and
        perhaps another has its name. A mark without a topic is no end: it would be taken for one of the next topic.
        """
        found = self._client.get_many([paths.topic(topic), paths.delete_topic(topic)])
        of_topic, mark = found[paths.topic(topic)], found[paths.delete_topic(topic)]
        if of_topic is None:
            gone = mark is None
        else:
            gone = topic_codecs.topic_id_in(topic, of_topic.data) not in (topic_id, topic_codecs.NO_TOPIC_ID)
        if not gone:
            raise StoreUnavailable(f"topic {topic} is not deleted: {refused}")

    def _with_strangers(self, doomed: Sequence[str]) -> list[str]:
        """These znodes behind all others that lie below them, and would keep them from being deleted; deepest first."""
        strangers: list[str] = []
        level = list(doomed)
        while level:
            below = self._client.children_many(level)
            found = {f"{path}/{name}" for path, names in below.items() for name in names or ()}
            level = sorted(found.difference(doomed))
            strangers += level
        if strangers:
            _log.warning("znodes that are no topic's are deleted with one: %s", strangers)
        return [*reversed(strangers), *doomed]

    def drop_deletion(self, term: Term, topic: str) -> bool:
        """Remove the mark of a topic that is not to be deleted, at the version that `asked_ids` has read.

        False where it was replaced since then, or was not read: it is not known what such a mark asks for.
        """
        version = self._marks.pop(topic, None)
        if version is None:
            return False
        refused = self._write(term, [Delete(paths.delete_topic(topic), version)])
        return refused is None or refused.reason != "bad-version"

    # Failed files

    def take_log_dir_events(self, term: Term, watch: Watch | None) -> AbstractSet[BrokerId]:
        """Brokers named by `/log_dir_event_notification`; removes what it read."""
        names = self._client.children(paths.LOG_DIR_EVENTS, watch) or []
        nodes = self._client.get_many([f"{paths.LOG_DIR_EVENTS}/{name}" for name in names])
        brokers = set()
        for path, node in nodes.items():
            if node is None:
                continue
            try:
                broker = codecs.decode_log_dir_event(node.data)
            except codecs.MalformedZnode as error:
                _log.error("a log dir event is ignored: %s", error)
                broker = None
            if broker is not None:
                brokers.add(broker)
            self._write(term, [Delete(path)])
        return brokers

    def _write(self, term: Term, operations: Sequence[Operation]) -> WriteRefused | None:
        """Why nothing was written, or None."""
        try:
            self._client.multi([checked(term), *operations])
        except WriteRefused as refused:
            raise_if_moved(refused, term)
            _log.warning("a deletion was overtaken: %s", refused)
            return refused
        return None
