"""Which brokers an interruption took away, by their registrations."""

from __future__ import annotations

import pytest

from checkers.evidence.absences import with_gone
from checkers.history.faults import FOR_EVER_NS, Interruption

pytestmark = pytest.mark.guarantee("R9")

S = 1_000_000_000
BOTH = frozenset({"n1", "n2"})


@pytest.mark.parametrize(
    ("absent", "gone"),
    [
        ({}, set()),
        ({"n1": [9 * S]}, set()),
        ({"n1": [10 * S]}, {"n1"}),
        # Its session of three seconds ends once the cluster is well again.
        ({"n1": [24 * S], "n2": [26 * S]}, {"n1"}),
        ({"n2": [1 * S, 15 * S, 90 * S]}, {"n2"}),
        ({"n3": [15 * S]}, set()),
    ],
)
def test_broker_is_gone_whose_registration_changed_until_a_session_later(
    absent: dict[str, list[int]], gone: set[str]
) -> None:
    (span,) = with_gone([Interruption(10 * S, 20 * S, BOTH)], absent, 3000)
    assert span == Interruption(10 * S, 20 * S, BOTH, gone=frozenset(gone))


def test_cut_takes_away_whoever_lost_its_registration() -> None:
    (span,) = with_gone([Interruption(10 * S, 20 * S, None)], {"n3": [15 * S], "n1": [1 * S]}, 3000)
    assert span.gone == frozenset({"n3"})


def test_interruption_that_nobody_took_back_takes_away_whoever_was_absent_since() -> None:
    (span,) = with_gone([Interruption(10 * S, FOR_EVER_NS, BOTH)], {"n1": [10**6 * S]}, 3000)
    assert span.gone == frozenset({"n1"})
