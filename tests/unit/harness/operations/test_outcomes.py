from __future__ import annotations

import pytest

from broker.wire.errors import ErrorCode
from harness.operations import outcomes
from harness.operations.outcomes import deletion_outcome, read_outcome, send_outcome

pytestmark = pytest.mark.guarantee("H4")

# Every code that proves that nothing was appended, written out a second time: adding one is a decision, not a slip.
PROVEN = {
    "NOT_ENOUGH_REPLICAS",
    "MESSAGE_TOO_LARGE",
    "RECORD_LIST_TOO_LARGE",
    "CORRUPT_MESSAGE",
    "INVALID_RECORD",
    "INVALID_TIMESTAMP",
    "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    "UNSUPPORTED_COMPRESSION_TYPE",
    "INVALID_REQUIRED_ACKS",
    "INVALID_TOPIC_EXCEPTION",
    "UNSUPPORTED_VERSION",
    "TOPIC_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "DUPLICATE_SEQUENCE_NUMBER",
    "INVALID_PRODUCER_EPOCH",
    "UNKNOWN_PRODUCER_ID",
}


@pytest.mark.parametrize("error", [code.name for code in ErrorCode if code != ErrorCode.NONE])
def test_send_with_kafka_error_fails_only_when_nothing_can_have_been_appended(error: str) -> None:
    assert send_outcome(error) == ("fail" if error in PROVEN else "info")


@pytest.mark.parametrize(
    "error",
    [
        "NOT_LEADER_OR_FOLLOWER",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "KAFKA_STORAGE_ERROR",
        "REQUEST_TIMED_OUT",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "UNKNOWN_SERVER_ERROR",
        "UNKNOWN_999",
        "timeout",
        "connection-reset",
        "malformed",
    ],
)
def test_send_that_may_have_been_appended_is_info(error: str) -> None:
    assert send_outcome(error) == "info"


@pytest.mark.parametrize("error", ["no-leader-known", "connection-refused", "not-connected"])
def test_send_that_was_never_sent_fails(error: str) -> None:
    assert error in outcomes.NOTHING_SENT
    assert send_outcome(error) == "fail"


def test_success_is_ok() -> None:
    assert (send_outcome(None), read_outcome(None)) == ("ok", "ok")


@pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLLOWER", "OFFSET_OUT_OF_RANGE", "no-leader-known"])
def test_read_with_an_error_as_response_fails(error: str) -> None:
    assert read_outcome(error) == "fail"


@pytest.mark.parametrize("error", ["timeout", "connection-reset", "malformed"])
def test_read_without_a_response_is_info(error: str) -> None:
    assert read_outcome(error) == "info"


NOTHING_DELETED = {
    "OFFSET_OUT_OF_RANGE",
    "POLICY_VIOLATION",
    "INVALID_TOPIC_EXCEPTION",
    "TOPIC_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "UNSUPPORTED_VERSION",
}


@pytest.mark.parametrize("error", [code.name for code in ErrorCode if code != ErrorCode.NONE])
def test_deletion_with_kafka_error_fails_only_when_nothing_can_have_been_deleted(error: str) -> None:
    assert deletion_outcome(error) == ("fail" if error in NOTHING_DELETED else "info")


def test_deletion_without_a_response_is_info_and_one_that_was_never_sent_fails() -> None:
    assert {deletion_outcome(error) for error in outcomes.NO_RESPONSE} == {"info"}
    assert {deletion_outcome(error) for error in outcomes.NOTHING_SENT} == {"fail"}
    assert deletion_outcome(None) == "ok"
