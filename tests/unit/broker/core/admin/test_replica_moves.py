"""What AlterReplicaLogDirs does to one replica: errors in Kafka's order, and what is done all the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.core.admin.replica_moves import Decision, Found, decide
from broker.model.ids import TopicPartition
from broker.wire.errors import ErrorCode

pytestmark = pytest.mark.guarantee("K1")

TP = TopicPartition("t", 0)
HERE = Found(
    dir_works=True, all_dirs_work=True, offline=False, home="/a", target=None, unhosted=ErrorCode.NONE
)  # fmt: skip
MOVING = replace(HERE, target="/b")


def test_replica_begins_to_move_once() -> None:
    assert decide(TP, "/b", HERE) == Decision(ErrorCode.NONE, begins=True)
    assert decide(TP, "/b", MOVING) == Decision(ErrorCode.NONE)
    assert decide(TP, "/a", HERE) == Decision(ErrorCode.NONE)


def test_second_request_redirects_or_cancels() -> None:
    assert decide(TP, "/c", MOVING) == Decision(ErrorCode.NONE, cancels=True, begins=True)
    assert decide(TP, "/a", MOVING) == Decision(ErrorCode.NONE, cancels=True)


def test_no_move_begins_while_a_dir_is_away_that_may_have_a_copy() -> None:
    away = replace(MOVING, all_dirs_work=False)
    assert decide(TP, "/c", away) == Decision(ErrorCode.KAFKA_STORAGE_ERROR, cancels=True, prefers=True)
    assert decide(TP, "/a", away) == Decision(ErrorCode.NONE, cancels=True)
    assert decide(TP, "/b", away) == Decision(ErrorCode.NONE)


def test_dir_that_is_not_there_or_does_not_work_ends_nothing() -> None:
    assert decide(TP, "/x", replace(MOVING, dir_works=None)) == Decision(ErrorCode.LOG_DIR_NOT_FOUND)
    assert decide(TP, "/c", replace(MOVING, dir_works=False)) == Decision(ErrorCode.KAFKA_STORAGE_ERROR)
    assert decide(TP, "/c", replace(MOVING, offline=True)) == Decision(ErrorCode.KAFKA_STORAGE_ERROR)


@pytest.mark.parametrize(
    ("unhosted", "error"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REPLICA_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_dir_is_remembered_for_a_replica_that_is_not_here_yet(unhosted: ErrorCode, error: ErrorCode) -> None:
    assert decide(TP, "/b", replace(HERE, home=None, unhosted=unhosted)) == Decision(error, prefers=True)


def test_topic_whose_copy_could_have_no_name_is_refused() -> None:
    longest = 255 - len("-0") - 1 - 32 - len("-future")
    assert decide(TopicPartition("t" * longest, 0), "/b", HERE).begins
    assert decide(TopicPartition("t" * (longest + 1), 0), "/b", HERE) == Decision(ErrorCode.INVALID_TOPIC_EXCEPTION)
