"""What a coordinator of transactions answers and stores, from a producer's id to the completion, and its successor."""

from __future__ import annotations

import pytest

from broker.core.coordination import partition_of
from broker.core.transaction.metadata import TransactionMetadata, Transit
from broker.core.transaction.states import TransactionState
from broker.model.ids import TopicPartition
from broker.runtime.transaction.housekeeping import TransactionHousekeeping
from broker.runtime.transaction.state import record_of
from broker.wire.coordinator_records.scan import read_batch
from broker.wire.errors import ErrorCode
from broker.wire.record_batch import read_header
from tests.support.coordinating import TIMEOUT_MS, Coordinating
from tests.support.coordinating import here as here
from tests.support.transaction_parts import STATE_0
from tests.support.transactional_ids import P0, P1
from tests.support.transactions import end_marker

S = TransactionState


def test_transaction_from_the_first_request_to_the_completion(here: Coordinating) -> None:
    producer = here.started()
    assert producer == (101, 0)
    added = here.add(producer, P0, P1)
    assert added == []
    assert here.verified(producer, [P0]) == [ErrorCode.TRANSACTION_ABORTABLE]
    here.appends.settle()
    assert added == [ErrorCode.NONE]
    assert here.verified(producer, [P0]) == [ErrorCode.NONE]
    ended = here.end(producer)
    assert (ended, here.markers.jobs) == ([], []), "nothing leaves before the decision is stored"
    here.appends.settle()
    assert ended == [ErrorCode.NONE]
    here.markers.write()
    assert here.label == "PrepareCommit"
    here.appends.settle()
    assert here.label == "CompleteCommit"
    repeated = here.end(producer)
    here.appends.settle()
    assert (repeated, here.label) == ([ErrorCode.NONE], "CompleteCommit")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_change_that_is_not_stored_is_taken_back(here: Coordinating, error: ErrorCode, told: ErrorCode) -> None:
    producer = here.opened()
    ended = here.end(producer)
    here.appends.settle(error)
    assert ended == [told]
    assert here.markers.jobs == []
    again = here.end(producer, commit=False)
    here.appends.settle()
    assert (again, here.state) == ([ErrorCode.NONE], S.PREPARE_ABORT)


def test_decision_is_carried_out_whatever_becomes_of_the_response(here: Coordinating) -> None:
    producer = here.opened()

    def fail(error: ErrorCode) -> None:
        raise ValueError(error.name)

    here.coordinator.end("tx", *producer, True, fail)
    with pytest.raises(ValueError, match="NONE"):
        here.appends.settle()
    here.markers.write()
    here.appends.settle()
    assert here.state is S.COMPLETE_COMMIT


def test_completion_is_stored_until_it_is(here: Coordinating) -> None:
    producer = here.opened()
    here.end(producer)
    here.appends.settle()
    here.markers.write()
    for _ in range(3):
        here.appends.settle(ErrorCode.NOT_ENOUGH_REPLICAS)
        assert here.appends.waiting == []
        here.loop.advance(100)
    here.appends.settle()
    assert here.state is S.COMPLETE_COMMIT


@pytest.mark.guarantee("transactions")
@pytest.mark.parametrize("commit", [True, False])
def test_successor_carries_out_a_decision(here: Coordinating, commit: bool) -> None:
    producer = here.opened(P0, P1)
    here.end(producer, commit)
    here.appends.settle()
    there = here.successor()
    (job,) = there.markers.jobs
    assert job[0].partitions == {P0, P1}
    assert there.end(producer, commit) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    there.markers.write()
    there.appends.settle()
    assert there.state is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)


@pytest.mark.parametrize("first", [True, False])
def test_successor_carries_out_decisions_where_one_cannot_be(here: Coordinating, first: bool) -> None:
    """No coordinator decides for a producer without an epoch; a log may have it all the same."""
    producer = here.opened(P0)
    here.end(producer)
    here.appends.settle()
    bad = record_of("bad", Transit(7, 7, -1, -1, 1, S.PREPARE_ABORT, frozenset([P0]), 1, 1))
    here.appends.stored.insert(0 if first else len(here.appends.stored), bad)
    there = here.successor()
    (job,) = there.markers.jobs
    assert job[0].transactional_id == "tx"


def test_partitions_are_remembered_as_seen_until_the_transaction_is_over(here: Coordinating) -> None:
    producer = here.opened(P0, P1)
    assert here.home.transactions["tx"].seen == {P0}, "P1 is not known here"
    here.end(producer)
    here.appends.settle()
    assert here.home.transactions["tx"].seen == {P0}
    here.markers.write()
    here.appends.settle()
    assert here.home.transactions["tx"].seen == set()
    here.add(producer, P0)
    here.appends.settle()
    assert here.successor().home.transactions["tx"].seen == set(), "a topic of that name may be another one there"


@pytest.mark.guarantee("transactions")
@pytest.mark.parametrize("commit", [True, False])
def test_deposed_coordinator_takes_no_end_for_a_repeat(here: Coordinating, commit: bool) -> None:
    """It has heard of no successor, and the last transaction that it knows of ended in the same way."""
    producer = here.opened()
    here.end(producer, commit)
    here.appends.settle()
    here.markers.write()
    here.appends.settle()
    there = Coordinating(here.appends)
    there.add(producer, P0)
    there.appends.settle()
    told = here.end(producer, commit)
    assert told == []
    here.appends.settle(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert told == [ErrorCode.NOT_COORDINATOR]
    assert there.end(producer, commit) == []
    there.appends.settle()
    assert there.state is (S.PREPARE_COMMIT if commit else S.PREPARE_ABORT)


def test_repeated_end_is_answered_where_its_coordinator_ends_meanwhile(here: Coordinating) -> None:
    producer = here.opened()
    here.end(producer)
    here.appends.settle()
    here.markers.write()
    here.appends.settle()
    repeated = here.end(producer)
    assert here.add(producer, P1) == [], "the next transaction begins behind it"
    there = here.successor()
    here.appends.settle()
    assert repeated == [ErrorCode.NOT_COORDINATOR]
    assert there.label == "CompleteCommit"


def test_predecessors_work_ends_when_it_is_unloaded(here: Coordinating) -> None:
    producer = here.opened()
    ended = here.end(producer)
    there = here.successor()
    here.appends.settle()
    assert ended == [ErrorCode.NOT_COORDINATOR]
    assert here.markers.jobs == []
    assert there.state is S.ONGOING
    assert there.end(producer) == []


def test_markers_that_come_back_after_the_unload_store_nothing(here: Coordinating) -> None:
    producer = here.opened()
    here.end(producer)
    here.appends.settle()
    _, done = here.markers.jobs.pop()
    here.home.unload()
    done()
    assert here.appends.waiting == []


def test_second_producer_fences_the_first_and_waits_for_its_abort(here: Coordinating) -> None:
    old = here.opened()
    answers = here.init()
    assert here.end(old) == [ErrorCode.PRODUCER_FENCED], "from now on"
    here.appends.settle()
    assert answers == [(ErrorCode.CONCURRENT_TRANSACTIONS, -1, -1)]
    assert here.init() == [(ErrorCode.CONCURRENT_TRANSACTIONS, -1, -1)]
    here.markers.write()
    here.appends.settle()
    again = here.init()
    here.appends.settle()
    assert again == [(ErrorCode.NONE, 101, 2)]


def test_time_out_aborts_and_fences(here: Coordinating) -> None:
    producer = here.opened()
    TransactionHousekeeping(here.coordinator, here.appends, here.loop, lambda: False).start()  # type: ignore[arg-type]
    here.wall_ms += TIMEOUT_MS
    here.loop.advance(10_001)
    assert here.appends.waiting == []
    here.wall_ms += 1
    here.loop.run_soon()
    here.loop.advance(10_001)
    here.appends.settle()
    assert (here.state, here.home.transactions["tx"].epoch) == (S.PREPARE_ABORT, 1)
    assert here.end(producer) == [ErrorCode.PRODUCER_FENCED]


def test_time_outs_go_on_where_one_transaction_cannot_be_fenced(here: Coordinating) -> None:
    """Nobody gives the largest epoch to a producer; a log may have it all the same."""
    here.opened()
    bad = TransactionMetadata("bad", 7, 32767, 1, 0, S.ONGOING, [P0], 0)
    here.home.transactions = {"bad": bad, **here.home.transactions}
    TransactionHousekeeping(here.coordinator, here.appends, here.loop, lambda: False).start()  # type: ignore[arg-type]
    here.wall_ms += TIMEOUT_MS + 1
    for _ in range(2):
        here.loop.advance(10_001)
        here.loop.run_soon()
    here.appends.settle()
    assert here.state is S.PREPARE_ABORT


def test_idle_id_is_forgotten_once_its_tombstone_is_stored(here: Coordinating) -> None:
    here.started()
    TransactionHousekeeping(here.coordinator, here.appends, here.loop, lambda: False).start()  # type: ignore[arg-type]
    here.wall_ms += 500_000
    here.loop.advance(3_600_001)
    here.appends.settle(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert "tx" in here.home.transactions
    here.loop.run_soon()
    here.loop.advance(3_600_001)
    here.appends.settle()
    assert here.home.transactions == {}
    assert here.appends.stored[-1].value is None
    assert here.successor().home.transactions == {}


def test_init_refuses_what_no_transaction_can_have(here: Coordinating) -> None:
    assert here.init(timeout_ms=900_001) == [(ErrorCode.INVALID_TRANSACTION_TIMEOUT, -1, -1)]
    assert here.init(timeout_ms=0) == [(ErrorCode.INVALID_TRANSACTION_TIMEOUT, -1, -1)]
    assert here.init(id_="") == [(ErrorCode.INVALID_REQUEST, -1, -1)]
    assert here.init(id_="x" * 32768) == [(ErrorCode.INVALID_REQUEST, -1, -1)]


@pytest.mark.parametrize("error", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_who_does_not_coordinate_says_so(here: Coordinating, error: ErrorCode) -> None:
    here.found = error
    assert here.init() == [(error, -1, -1)]
    assert here.add((1, 0), P0) == [error]
    assert here.end((1, 0)) == [error]
    assert here.verified((1, 0), [P0]) == [error]


def test_nobody_knows_where_an_id_belongs_before_the_topic_is_known(here: Coordinating) -> None:
    """LeaderAndIsr may come before the metadata, and the topic have other partitions than this broker would make."""
    asked: list[int] = []
    here.coordinator.partitions.find = lambda partition: asked.append(partition) or ErrorCode.NOT_COORDINATOR  # type: ignore[func-returns-value, method-assign]
    here.cluster.leaders.clear()
    assert here.init() == [(ErrorCode.NOT_COORDINATOR, -1, -1)]
    here.cluster.leaders.update({TopicPartition(STATE_0.topic, index): 1 for index in range(3)})
    here.init()
    assert asked == [-1, partition_of("tx", 3)]


def test_what_is_stored_is_what_is_loaded(here: Coordinating) -> None:
    here.opened(P1, P0, TopicPartition("ü", 3))
    there = here.successor().home.transactions["tx"]
    assert there.partitions == {P0, P1, ("ü", 3)}
    assert (there.state, there.producer_id, there.epoch, there.timeout_ms) == (S.ONGOING, 101, 0, TIMEOUT_MS)
    assert (there.start_ms, there.update_ms) == (1_000_000, 1_000_000)


@pytest.mark.guarantee("transactions")
@pytest.mark.parametrize("committed", [True, False])
def test_marker_among_the_records_is_no_transactional_id(here: Coordinating, committed: bool) -> None:
    """Whoever has the right may have one written there, and its key would pass for that of an id."""
    producer = here.opened()
    there = here.successor().home
    batch = end_marker(producer[0], committed)
    there.take(read_batch(read_header(batch), batch))
    assert there.bring_up()
    assert there.transactions.keys() == {"tx"}
