"""Which commits certainly had no effect."""

from __future__ import annotations

import pytest

from harness.operations.group_outcomes import commit_outcome, membership_outcome
from harness.operations.op import Outcome

pytestmark = [pytest.mark.guarantee("V2")]


@pytest.mark.parametrize(
    ("errors", "outcome"),
    [
        ([None, None], "ok"),
        (["ILLEGAL_GENERATION"], "fail"),
        (["FENCED_INSTANCE_ID", "FENCED_INSTANCE_ID"], "fail"),
        (["connection-refused"], "fail"),
        (["timeout"], "info"),
        # One of the two was committed.
        ([None, "ILLEGAL_GENERATION"], "info"),
        # What NOT_LEADER_OR_FOLLOWER becomes once the append is made.
        (["NOT_COORDINATOR"], "info"),
        (["COORDINATOR_NOT_AVAILABLE"], "info"),
        (["REQUEST_TIMED_OUT"], "info"),
    ],
)
def test_commit_failed_only_where_each_error_proves_it(errors: list[str | None], outcome: Outcome) -> None:
    assert commit_outcome(errors) == outcome


@pytest.mark.parametrize(("error", "outcome"), [(None, "ok"), ("REBALANCE_IN_PROGRESS", "fail"), ("timeout", "info")])
def test_membership_is_unknown_only_without_a_response(error: str | None, outcome: Outcome) -> None:
    assert membership_outcome(error) == outcome
