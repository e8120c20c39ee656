"""Topics, their settings, and producer ids, as brokers (not the controller) read and write them.

Settings are written before the topic, so that a reader of the topic finds them. Topics and settings have no term: any
broker may write them, each write is conditional. Blocking; worker thread.
Source: kafka.zk.AdminZkClient, ZkProducerIdManager, ZkConfigManager.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence

from broker.core.controller.cluster_state import StoreUnavailable, Topic
from broker.model.ids import BrokerId
from broker.zk import admin_codecs, codecs, paths, topic_codecs
from broker.zk.client import SessionExpired, Watch, WriteRefused, ZkClient
from broker.zk.operations import Create, Delete, Operation, SetData

_log = logging.getLogger("broker.zk")

PRODUCER_ID_BLOCK = 1000
_PRODUCER_ID_MAX = 2**63 - 1
_TRIES = 20


class ZkTopicStore:
    """Satisfies the store Protocols of runtime's admin, topic_config and producer_id_blocks."""

    def __init__(self, client: ZkClient, broker_id: BrokerId) -> None:
        self._client = client
        self._broker_id = broker_id

    def topic_names(self) -> frozenset[str]:
        """Children of `/brokers/topics`."""
        return frozenset(self._client.children(paths.TOPICS) or [])

    def topic_exists(self, name: str) -> bool:
        """Whether the topic's znode exists."""
        return self._client.get(paths.topic(name)) is not None

    def topic_id(self, name: str) -> str | None:
        """The id in the topic's znode, "" where it has none that makes sense; None where there is no topic."""
        node = self._client.get(paths.topic(name))
        return None if node is None else topic_codecs.topic_id_in(name, node.data)

    def being_deleted(self, name: str) -> bool:
        """Whether the topic is marked in `/admin/delete_topics`."""
        return self._client.get(paths.delete_topic(name)) is not None

    def create_topic(self, topic: Topic, config: Mapping[str, str]) -> bool:
        """False when the topic exists. Settings and topic appear together, so a lost race changes neither."""
        config_path, path = paths.topic_config(topic.name), paths.topic(topic.name)
        for _ in range(_TRIES):
            operations: list[Operation] = []
            # Settings without a topic are left over from a deletion, and not this topic's.
            old = self._client.get(config_path)
            if config and old is not None:
                operations.append(SetData(config_path, codecs.encode_config(config), old.version))
            elif config:
                operations.append(Create(config_path, codecs.encode_config(config)))
            elif old is not None:
                operations.append(Delete(config_path, old.version))
            operations.append(Create(path, topic_codecs.encode_topic(topic)))
            try:
                self._client.multi(operations)
            except WriteRefused:
                if self.topic_exists(topic.name):
                    return False
                continue
            return True
        raise StoreUnavailable(f"{config_path} changed {_TRIES} times in a row")

    def request_deletion(self, name: str, topic_id: str, *, by_id: bool) -> bool:
        """Mark a topic to be deleted; False when that is asked for already, or the topic of this id is gone.

        topic_id: of the topic that is meant, as `topic_id` has told it. by_id: the mark asks for the topic of this id
        alone, and the controller drops it where another topic has the name when it looks. Else for whichever topic has
        the name then.

        A mark that is there already:
        - by name. It stays: it was asked for the topic of this name, whichever that is, and so for ours as well while
          ours has the name. To write our id over it would take back what somebody else asked for.
        - of our topic's id. It stays, also where this request is by name: one by name that came after the end of our
          topic would take the next one.
        - of another id: of two ids one at most is the topic's. Where it is ours, that mark is a late one, to be
          dropped, and this request's takes its place; else ours is gone, and nothing is written.
        From the first mark that was there on, nothing is written where our topic has lost its name: its deletion is
        over. A mark is replaced at the version that was read, and dropped by the controller in the same way. Of one
        that was removed and made again in between, at the same version, neither can tell.
        """
        path, data = paths.delete_topic(name), admin_codecs.encode_deletion(topic_id if by_id else None)
        for attempt in range(_TRIES):
            if attempt and self.topic_id(name) != topic_id:
                return False
            try:
                self._client.create(path, data)
                return True
            except WriteRefused as refused:
                if refused.reason != "node-exists":
                    raise
            node = self._client.get(path)
            if node is None:
                continue
            asked = admin_codecs.decode_deletion(node.data)
            if asked is None or asked == topic_id or self.topic_id(name) != topic_id:
                return False
            try:
                self._client.set(path, data, node.version)
                return True
            except WriteRefused as refused:
                if refused.reason not in ("no-node", "bad-version"):
                    raise
        raise StoreUnavailable(f"{path} changed {_TRIES} times in a row")

    def topic_configs(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        """Overrides by topic; a topic without any has an empty dict, and so has one whose znode makes no sense."""
        nodes = self._client.get_many([paths.topic_config(name) for name in names])
        configs = {}
        for name in names:
            node = nodes[paths.topic_config(name)]
            try:
                configs[name] = codecs.decode_config(node.data if node else None, paths.topic_config(name))
            except codecs.MalformedZnode as error:
                _log.error("settings are ignored: %s", error)
                configs[name] = {}
        return configs

    def config_changes(self, watch: Watch | None, seen: Collection[str] = ()) -> dict[str, str | None]:
        """Notifications by name, in order: the entity (`topics/T`) whose settings changed, None where unreadable.

        Those that are seen are not read, and name None.
        """
        names = self._client.children(paths.CONFIG_CHANGES, watch) or []
        fresh = [name for name in names if name not in seen]
        nodes = self._client.get_many([f"{paths.CONFIG_CHANGES}/{name}" for name in fresh])
        found: dict[str, str | None] = dict.fromkeys(name for name in names if name in seen)
        for name in fresh:
            node = nodes[f"{paths.CONFIG_CHANGES}/{name}"]
            if node is not None:
                try:
                    entity = codecs.decode_config_change(node.data)
                except codecs.MalformedZnode:
                    entity = None
                # Of users' clients (`users/u/clients/c`) too: nothing here has such settings.
                found[name] = entity if entity is not None and paths.is_entity(entity) else None
        return found

    def configured_topics(self) -> list[str]:
        """Topics that have settings of their own, children of `/config/topics`."""
        return self._client.children(paths.CONFIG_TOPICS) or []

    def report_log_failure(self) -> None:
        """Notify the controller of failed files: it sends LeaderAndIsr, whose response names the offline replicas."""
        self._client.create_sequence(paths.LOG_DIR_EVENT_PREFIX, codecs.encode_log_dir_event(self._broker_id))

    def claim_producer_ids(self) -> tuple[int, int]:
        """A block of ids that no other broker gets: [first, last], last included. A session that ends meanwhile costs a
        block at most, should the claim have landed.
        """
        expired: SessionExpired | None = None
        for _ in range(_TRIES):
            node = self._client.get(paths.PRODUCER_ID_BLOCK)
            if node is None:
                self._client.ensure_path(paths.PRODUCER_ID_BLOCK)
                continue
            first = codecs.decode_producer_id_block(node.data).last + 1 if node.data else 0
            last = first + PRODUCER_ID_BLOCK - 1
            if last > _PRODUCER_ID_MAX:
                raise StoreUnavailable("all producer ids have been given out")
            block = codecs.ProducerIdBlock(self._broker_id, first, last)
            try:
                self._client.set(paths.PRODUCER_ID_BLOCK, codecs.encode_producer_id_block(block), node.version)
            except WriteRefused:
                continue
            except SessionExpired as error:
                expired = error
                continue
            return first, last
        raise expired or StoreUnavailable(f"{paths.PRODUCER_ID_BLOCK} was overtaken {_TRIES} times")
