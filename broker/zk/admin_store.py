"""What administration reads and writes from any broker: topics' partitions, and settings of topics and brokers.

Every write is conditional on what was read. A change of settings is written with a notification under
`/config/changes`, whose watches fire at all brokers; notifications beyond the newest CHANGES_KEPT are removed, oldest
first. Blocking; worker thread. Source: kafka.zk.AdminZkClient, ZkNodeChangeNotificationListener.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from broker.core.admin.stored import CHANGES_KEPT, StoredConfig, StoredTopic
from broker.core.controller.cluster_state import Topic, WriteUnknown
from broker.model.ids import BrokerId
from broker.zk import codecs, paths, topic_codecs
from broker.zk.client import WriteRefused, ZkClient
from broker.zk.operations import Check, Create, CreateSequence, Operation, SetData

_log = logging.getLogger("broker.zk")

_TOPICS = "topics/"


class ZkAdminStore:
    """Satisfies the store Protocols of runtime's admin_partitions, admin_alter_configs and dynamic_config."""

    def __init__(self, client: ZkClient) -> None:
        self._client = client

    # Topics

    def read_topic(self, name: str) -> StoredTopic | None:
        """The topic and its znode's bytes and version; None where there is none."""
        node = self._client.get(paths.topic(name))
        return (
            None if node is None else StoredTopic(topic_codecs.decode_topic(name, node.data), node.data, node.version)
        )

    def write_topic(self, read: StoredTopic, topic: Topic) -> bool:
        """Write the topic if its znode is unchanged since `read`; False where it is not. Raises StoreUnavailable."""
        try:
            self._client.set(paths.topic(topic.name), topic_codecs.encode_topic(topic, read.data), read.version)
        except WriteRefused as refused:
            return _changed_meanwhile(refused)
        return True

    def being_deleted(self, name: str) -> bool:
        """Whether `/admin/delete_topics/<name>` exists."""
        return self._client.get(paths.delete_topic(name)) is not None

    # Settings

    def read_config(self, entity: str) -> StoredConfig:
        """The settings in `/config/<entity>`, empty where there is none. Raises MalformedZnode."""
        path = paths.entity_config(entity)
        node = self._client.get(path)
        if node is None:
            return StoredConfig(entity, {}, None, -1)
        return StoredConfig(entity, codecs.decode_config(node.data, path), node.data, node.version)

    def write_config(self, read: StoredConfig, config: Mapping[str, str]) -> bool:
        """False where the settings have changed meanwhile, or their topic is gone. Raises StoreUnavailable."""
        path = paths.entity_config(read.entity)
        text = codecs.encode_config(config, read.data)
        operations: list[Operation] = []
        if read.entity.startswith(_TOPICS):
            topic = self._client.get(paths.topic(read.entity[len(_TOPICS) :]))
            if topic is None:
                return False
            operations.append(Check(paths.topic(read.entity[len(_TOPICS) :]), topic.version))
        operations.append(Create(path, text) if read.data is None else SetData(path, text, read.version))
        # Together: a change without its notification would never reach some brokers.
        operations.append(CreateSequence(paths.CONFIG_CHANGE_PREFIX, codecs.encode_config_change(read.entity)))
        try:
            self._client.multi(operations)
        except WriteRefused as refused:
            return _changed_meanwhile(refused)
        self._forget_old_changes()
        return True

    def notify_config(self, entity: str) -> None:
        """Have all brokers read the entity's settings again, by a znode in `/config/changes`."""
        self._client.create_sequence(paths.CONFIG_CHANGE_PREFIX, codecs.encode_config_change(entity))
        self._forget_old_changes()

    def _forget_old_changes(self) -> None:
        names = sorted(self._client.children(paths.CONFIG_CHANGES) or [])
        for name in names[:-CHANGES_KEPT]:
            self._client.delete(f"{paths.CONFIG_CHANGES}/{name}")

    def broker_configs(self, broker: BrokerId) -> tuple[dict[str, str], dict[str, str]]:
        """(settings of all brokers, settings of this one); empty where a znode cannot be decoded."""
        found = []
        for entity in (paths.DEFAULT_ENTITY, str(broker)):
            path = paths.broker_config(entity)
            node = self._client.get(path)
            try:
                found.append(codecs.decode_config(node.data if node else None, path))
            except codecs.MalformedZnode as error:
                _log.error("settings are ignored: %s", error)
                found.append({})
        return found[0], found[1]


def _changed_meanwhile(refused: WriteRefused) -> bool:
    """False: what was read has changed, and nothing was written. Who reads and writes again upon that would have a
    change take effect twice that was made, and overwritten, before its lost response was looked for.
    """
    if refused.overtaken:
        raise WriteUnknown(f"{refused}: whether it was written, before somebody else wrote there, is not known")
    return False
