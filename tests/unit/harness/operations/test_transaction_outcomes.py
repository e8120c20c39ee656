from __future__ import annotations

import pytest

from harness.operations.transaction_outcomes import coordinator_outcome, end_outcome, transactional_send_outcome


@pytest.mark.parametrize("error", ["PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE", "not-connected"])
def test_what_is_refused_before_anything_is_stored_has_failed(error: str) -> None:
    assert coordinator_outcome(error) == end_outcome(error) == "fail"
    assert transactional_send_outcome(error) == "fail"


@pytest.mark.parametrize("error", ["NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "timeout", "UNKNOWN_SERVER_ERROR"])
def test_what_may_have_been_stored_is_not_known(error: str) -> None:
    assert coordinator_outcome(error) == end_outcome(error) == "info"
    assert transactional_send_outcome(error) == "info"


def test_end_that_a_coordinator_refuses_while_it_reads_may_be_decided() -> None:
    """It may have begun to read after the decision was in its log."""
    assert coordinator_outcome("COORDINATOR_LOAD_IN_PROGRESS") == "fail"
    assert end_outcome("COORDINATOR_LOAD_IN_PROGRESS") == "info"


def test_success_is_ok_and_what_a_plain_send_may_get_counts_as_for_one() -> None:
    assert coordinator_outcome(None) == end_outcome(None) == "ok"
    assert transactional_send_outcome(None) == "ok"
    assert transactional_send_outcome("NOT_ENOUGH_REPLICAS") == "fail"
    assert transactional_send_outcome("NOT_ENOUGH_REPLICAS_AFTER_APPEND") == "info"
