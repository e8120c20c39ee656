"""Reading topics, their ids and the settings that elections go by, into a controller's state.

Belongs to the controller's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from broker.config import usable_overrides
from broker.runtime.controller_tools import TermTools

UNCLEAN_ELECTION = "unclean.leader.election.enable"
MIN_ISR = "min.insync.replicas"


class TopicReader:
    """malformed: a topic's znode made no sense since the last load, so the topics known are not all."""

    def __init__(self, tools: TermTools, new_topic_id: Callable[[], str]) -> None:
        self._tools = tools
        self._new_topic_id = new_topic_id
        self.malformed = False

    def load(self, names: Iterable[str]) -> None:
        """Into a state that has none yet."""
        self._tools.topic_names.clear()
        self.malformed = False
        self.read(names)

    def read(self, names: Iterable[str]) -> None:
        """A topic that an older tool made gets its id."""
        tools = self._tools
        read = tools.store.topics(sorted(names), tools.watches.topic)
        self.malformed = self.malformed or bool(read.malformed)
        for name, found in read.topics.items():
            topic = found
            if not topic.topic_id:
                topic = tools.store.assign_topic_id(tools.term, name, self._new_topic_id()) or topic
            tools.state.topics[name] = topic
            tools.topic_names[topic.topic_id] = name
            self.note_config(name, read.configs.get(name, {}))

    def note_config(self, topic: str, overrides: Mapping[str, str]) -> None:
        """As leaders read them: `+1` is 1 to both, and a value that cannot work is none."""
        state = self._tools.state
        usable = usable_overrides(topic, overrides)
        if UNCLEAN_ELECTION in usable:
            state.unclean[topic] = usable[UNCLEAN_ELECTION].strip().lower() == "true"
        else:
            state.unclean.pop(topic, None)
        if MIN_ISR in usable:
            state.min_isr[topic] = int(usable[MIN_ISR])
        else:
            state.min_isr.pop(topic, None)
