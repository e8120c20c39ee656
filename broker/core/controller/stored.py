"""What the controller reads from and writes to ZooKeeper, as values; `broker.runtime.controller.ports` says how."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from broker.core.controller.cluster_state import LeaderAndIsr, Topic
from broker.model.ids import Epoch, TopicPartition

Watch = Callable[[], None]


class Term(NamedTuple):
    """One controllership. version: of the `/controller_epoch` znode, on which every write is conditional."""

    epoch: Epoch
    version: int


class StoredState(NamedTuple):
    """A partition's state and the transaction that wrote it last, comparable with broker epochs."""

    state: LeaderAndIsr
    written: int


class StatesRead(NamedTuple):
    """Partition states that could be read, and the partitions that have one which makes no sense."""

    found: Mapping[TopicPartition, StoredState]
    malformed: AbstractSet[TopicPartition]


class TopicsRead(NamedTuple):
    """Topics that could be read, their config overrides, and names of those whose znode makes no sense."""

    topics: Mapping[str, Topic]
    configs: Mapping[str, Mapping[str, str]]
    malformed: AbstractSet[str]


class StateWrite(NamedTuple):
    """Write `after` where `before` still stands (None: nothing is there yet)."""

    topic_partition: TopicPartition
    before: LeaderAndIsr | None
    after: LeaderAndIsr


class AssignmentWrite(NamedTuple):
    """A topic's new assignment with the states that go with it, written together or not at all."""

    topic: Topic
    states: Sequence[StateWrite]
