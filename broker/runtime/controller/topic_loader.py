"""Reading topics, their ids and the settings that elections go by, into a controller's state.

Belongs to the controller's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from broker.core.controller.cluster_state import Topic
from broker.model.ids import TopicPartition
from broker.runtime.controller.state_writer import PartitionStateWriter
from broker.runtime.metadata.usable_overrides import usable_overrides

_log = logging.getLogger(__name__)

UNCLEAN_ELECTION = "unclean.leader.election.enable"
MIN_ISR = "min.insync.replicas"


class TopicLoader:
    """malformed: a topic's znode could not be decoded since the last load, so not all topics are known.

    old: ids given in this term to topics that had partition states and no id: what a load finds of them is not new,
    whatever the states say.
    """

    def __init__(
        self, writer: PartitionStateWriter, new_topic_id: Callable[[], str], known_topic_id: Callable[[str], str]
    ) -> None:
        """known_topic_id: a topic's id in this broker's metadata cache, "" where it has none. Any thread."""
        self._writer = writer
        self._new_topic_id = new_topic_id
        self._known_topic_id = known_topic_id
        self._before: dict[str, str] = {}
        self.malformed = False
        self.old: set[str] = set()

    def load(self, names: Iterable[str]) -> None:
        """Into a state that has none yet."""
        self._before = {name: topic_id for topic_id, name in self._writer.topic_names.items()}
        self._writer.topic_names.clear()
        self.malformed = False
        self.read(names)

    def read(self, names: Iterable[str]) -> None:
        """A topic that an older tool made, or wrote anew without its id, gets one."""
        writer = self._writer
        read = writer.store.topics(sorted(names), writer.watches.topic)
        self.malformed = self.malformed or bool(read.malformed)
        for name, found in read.topics.items():
            topic = found
            if not topic.topic_id:
                topic = writer.with_topic_id(topic, self._id_for(topic))
            writer.state.topics[name] = topic
            writer.topic_names[topic.topic_id] = name
            self.note_config(name, read.configs.get(name, {}))

    def _id_for(self, topic: Topic) -> str:
        """The id that it had, where it has states and this broker knows that id; else a new one.

        Tools of before Kafka 2.8 that add partitions through ZooKeeper write the topic anew, and leave out what they do
        not know (KAFKA-14190). Under another id all replicas would take their logs for a deleted topic's.
        """
        partitions = [TopicPartition(topic.name, partition) for partition in topic.partitions]
        states = self._writer.store.states(partitions)
        if not states.found and not states.malformed:
            return self._new_topic_id()
        known = self._before.get(topic.name) or self._known_topic_id(topic.name)
        _log.warning("topic %s has partition states and no id: %s", topic.name, known or "it gets a new one")
        topic_id = known or self._new_topic_id()
        self.old.add(topic_id)
        return topic_id

    def note_config(self, topic: str, overrides: Mapping[str, str]) -> None:
        """As leaders read them: `+1` is 1 to both, and a value that cannot work is none."""
        state = self._writer.state
        usable = usable_overrides(topic, overrides)
        if UNCLEAN_ELECTION in usable:
            state.unclean[topic] = usable[UNCLEAN_ELECTION].strip().lower() == "true"
        else:
            state.unclean.pop(topic, None)
        if MIN_ISR in usable:
            state.min_isr[topic] = int(usable[MIN_ISR])
        else:
            state.min_isr.pop(topic, None)
