"""What a failed write to the log means to the clients that wait for it."""

from __future__ import annotations

import pytest

from broker.core.group.errors import commit_error, store_error
from broker.wire.errors import ErrorCode

pytestmark = pytest.mark.guarantee("group-rules")

E = ErrorCode


@pytest.mark.parametrize(
    ("append", "store", "commit"),
    [
        (E.NONE, E.NONE, E.NONE),
        (E.UNKNOWN_TOPIC_OR_PARTITION, E.COORDINATOR_NOT_AVAILABLE, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_ENOUGH_REPLICAS_AFTER_APPEND, E.COORDINATOR_NOT_AVAILABLE, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_LEADER_OR_FOLLOWER, E.NOT_COORDINATOR, E.NOT_COORDINATOR),
        (E.KAFKA_STORAGE_ERROR, E.NOT_COORDINATOR, E.NOT_COORDINATOR),
        (E.REQUEST_TIMED_OUT, E.REBALANCE_IN_PROGRESS, E.REQUEST_TIMED_OUT),
        (E.MESSAGE_TOO_LARGE, E.UNKNOWN_SERVER_ERROR, E.INVALID_COMMIT_OFFSET_SIZE),
        (E.RECORD_LIST_TOO_LARGE, E.UNKNOWN_SERVER_ERROR, E.INVALID_COMMIT_OFFSET_SIZE),
        (E.INVALID_FETCH_SIZE, E.UNKNOWN_SERVER_ERROR, E.INVALID_COMMIT_OFFSET_SIZE),
        (E.NETWORK_EXCEPTION, E.NETWORK_EXCEPTION, E.COORDINATOR_LOAD_IN_PROGRESS),
        (E.INVALID_TXN_STATE, E.INVALID_TXN_STATE, E.INVALID_TXN_STATE),
    ],
)
def test_errors_of_appends_become_errors_of_groups(append: E, store: E, commit: E) -> None:
    assert store_error(append) is store
    assert commit_error(append) is commit
