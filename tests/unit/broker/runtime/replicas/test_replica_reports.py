"""What is said of a replica, and when the mark of a stop that may have cost bytes is taken off it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.model.ids import TopicPartition
from broker.runtime.metadata.cache import MetadataCache
from broker.runtime.replicas.controller_fence import ControllerFence
from broker.runtime.replicas.remade_logs import RemadeLogs
from broker.runtime.replicas.replica_reports import ReplicaReports
from broker.runtime.replicas.replicas import Replicas
from broker.wire.messages.replica_report import (
    ReplicaReportRequest,
    ReplicaReportResponse,
    ReportedPartition,
    ReportTopic,
)
from broker.wire.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from tests.support.memory_log import MemoryStore

ME, EPOCH = 2, 7
T0 = TopicPartition("t", 0)


class World:
    """Broker 2 with a marked replica of t-0, and what it is told of it."""

    def __init__(self) -> None:
        self.epoch = EPOCH
        self.store = MemoryStore()
        self.store.mark_unclean(T0, "power failure")
        self.log = SimpleNamespace(
            log_start_offset=0, log_end_offset=0, epoch_at=lambda offset: offset // 10, history=[]
        )
        self.replica = SimpleNamespace(
            partition=SimpleNamespace(leader_epoch=-1, known_epoch=7), offline=False, topic_id="", log=self.log
        )
        self.cache = MetadataCache("c", "P", lambda: self.epoch, lambda topic: {}, lambda topic: None)
        remade_logs = RemadeLogs(lambda: self.epoch)
        self.made_outside = remade_logs.outside
        replicas: Any = SimpleNamespace(broker_id=ME, by_partition={T0: self.replica})
        self.reports = ReplicaReports(
            cast(Replicas, replicas),
            self.store,
            self.cache,
            remade_logs,
            lambda: self.epoch,
            ControllerFence(lambda: self.epoch, lambda: 0.0),
        )
        self.cache.add_listener(self.reports.on_metadata)

    def tell(self, version: int, *isr: int, leader: int = 1, leader_epoch: int = 5, controller_epoch: int = 1) -> None:
        state = UpdateMetadataPartitionState(
            partition_index=0, leader=leader, leader_epoch=leader_epoch, isr=list(isr), zk_version=version
        )
        error = self.cache.update(
            UpdateMetadataRequest(
                controller_id=9,
                controller_epoch=controller_epoch,
                broker_epoch=self.epoch,
                topic_states=[UpdateMetadataTopicState("t", "A" * 22, [state])],
            )
        )
        assert error == 0

    @property
    def marked(self) -> bool:
        return T0 in self.store.unclean


@pytest.mark.parametrize(("start", "end", "last_epoch"), [(0, 0, -1), (20, 45, 4), (45, 45, -1)])
def test_report_says_where_a_log_begins_and_ends_and_of_which_epoch_its_last_record_is(
    start: int, end: int, last_epoch: int
) -> None:
    world = World()
    world.log.log_start_offset, world.log.log_end_offset = start, end
    asked = ReplicaReportRequest(9, 1, EPOCH, [ReportTopic("t", "A" * 22, [0])])
    (said,) = world.reports.report(asked).partitions
    assert said == ReportedPartition("t", 0, 0, True, last_epoch, end, start, 7, shortened=True)


def test_report_says_the_newest_epochs_of_a_log_and_whether_it_is_what_it_was() -> None:
    world = World()
    world.log.history = [(epoch, 10 * epoch) for epoch in range(150)]
    world.store.mark_unclean(T0, "made anew")
    answer = world.reports.report(ReplicaReportRequest(9, 1, EPOCH, [ReportTopic("t", "A" * 22, [0])]))
    (said,) = ReplicaReportResponse.decode(0, answer.encode(0)).partitions
    assert [(one.epoch, one.start_offset) for one in said.epochs] == [(n, 10 * n) for n in range(125, 150)]
    assert not said.shortened


def test_epoch_that_a_damaged_checkpoint_names_is_reported_as_far_as_the_response_can() -> None:
    world = World()
    world.log.log_end_offset, world.log.epoch_at = 1, lambda offset: 2**40
    world.replica.partition.known_epoch = 2**40
    answer = world.reports.report(ReplicaReportRequest(9, 1, EPOCH, [ReportTopic("t", "A" * 22, [0])]))
    (said,) = ReplicaReportResponse.decode(0, answer.encode(0)).partitions
    assert (said.last_epoch, said.known_epoch) == (2**31 - 1, 2**31 - 1)


def test_mark_of_a_log_that_was_made_after_the_first_request_goes_too() -> None:
    """A broker that starts hears of the cluster before it is told its roles: the log is made, and marked, later."""
    world = World()
    world.store.clear_unclean(T0)
    world.tell(1, 1, 3)
    world.store.mark_unclean(T0, "made anew")
    world.made_outside[T0] = EPOCH
    world.tell(2, 1, 2, 3)
    assert not world.marked
    assert not world.made_outside


def test_log_that_was_made_under_another_registration_stays_marked() -> None:
    world = World()
    world.made_outside[T0] = EPOCH
    world.epoch = EPOCH + 1
    world.tell(1, 1, 2, 3)
    assert world.marked


def test_mark_goes_when_the_replica_comes_into_the_isr() -> None:
    world = World()
    world.tell(1, 1, 3)
    assert world.marked
    world.tell(2, 1, 2, 3)
    assert not world.marked


def test_mark_stays_while_the_isr_names_the_replica_since_before_its_registration() -> None:
    world = World()
    world.tell(1, 1, 2)
    world.tell(2, 1, 2, 3)
    world.tell(3, 1, 2, 3, leader_epoch=6)
    assert world.marked
    world.tell(4, 1, 3, leader_epoch=6)
    world.tell(5, 1, 2, 3, leader_epoch=6)
    assert not world.marked


def test_mark_stays_where_the_request_is_older_than_the_log() -> None:
    world = World()
    world.tell(1, 1, 3)
    world.replica.partition.leader_epoch = 6
    world.tell(2, 1, 2, 3)
    world.cache.controller_moved(4)
    assert world.marked


def test_mark_stays_until_the_request_for_this_registration_comes() -> None:
    world = World()
    world.tell(1, 1, 3)
    world.epoch = 8
    world.cache.controller_moved(4)
    world.tell(2, 1, 2, 3)
    assert world.marked, "it was out of the ISR under the registration before"


def test_mark_stays_without_a_leader() -> None:
    world = World()
    world.tell(1, 1, 3)
    world.tell(2, 1, 2, leader=-1)
    assert world.marked
