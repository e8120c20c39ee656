"""Which changes of settings and of partition counts certainly had no effect."""

from __future__ import annotations

import pytest

from harness.operations.admin_outcomes import change_outcome, end_outcome, growth_outcome, making_outcome
from harness.operations.op import Outcome

pytestmark = [pytest.mark.guarantee("V2")]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, "ok"),
        ("INVALID_CONFIG", "fail"),
        ("connection-refused", "fail"),
        ("timeout", "info"),
        # ZooKeeper did not answer in time: it may have written.
        ("REQUEST_TIMED_OUT", "info"),
        # Looked up again before each try, of which an earlier one may be written.
        ("UNKNOWN_TOPIC_OR_PARTITION", "info"),
    ],
)
def test_change_of_a_setting_failed_only_where_the_error_proves_it(error: str | None, outcome: Outcome) -> None:
    assert change_outcome(error) == outcome


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, "ok"),
        ("NOT_CONTROLLER", "fail"),
        ("INVALID_PARTITIONS", "fail"),
        ("INVALID_REPLICATION_FACTOR", "fail"),
        ("no-leader-known", "fail"),
        ("connection-reset", "info"),
        # Written, and not all led in time.
        ("REQUEST_TIMED_OUT", "info"),
        ("UNKNOWN_TOPIC_OR_PARTITION", "info"),
    ],
)
def test_growth_failed_only_where_the_error_proves_it(error: str | None, outcome: Outcome) -> None:
    assert growth_outcome(error) == outcome


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, "ok"),
        ("NOT_CONTROLLER", "fail"),
        ("INVALID_REPLICATION_FACTOR", "fail"),
        ("connection-refused", "fail"),
        ("REQUEST_TIMED_OUT", "info"),
        # Perhaps by this very request, whose first answer ZooKeeper's client lost.
        ("TOPIC_ALREADY_EXISTS", "info"),
    ],
)
def test_topic_was_not_made_only_where_the_error_proves_it(error: str | None, outcome: Outcome) -> None:
    assert making_outcome(error) == outcome


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, "ok"),
        ("NOT_CONTROLLER", "fail"),
        ("UNKNOWN_TOPIC_ID", "fail"),
        ("TOPIC_DELETION_DISABLED", "fail"),
        ("no-leader-known", "fail"),
        # By name it is looked up again.
        ("UNKNOWN_TOPIC_OR_PARTITION", "info"),
        ("REQUEST_TIMED_OUT", "info"),
        ("timeout", "info"),
    ],
)
def test_topic_was_not_deleted_only_where_the_error_proves_it(error: str | None, outcome: Outcome) -> None:
    assert end_outcome(error) == outcome
