"""States and their predecessors."""

from __future__ import annotations

import pytest

from broker.core.group.states import GroupState, InvalidTransition, check_transition

pytestmark = pytest.mark.guarantee("group-rules")

KAFKAS = {
    ("PreparingRebalance", "Empty"),
    ("Empty", "PreparingRebalance"),
    ("Stable", "PreparingRebalance"),
    ("CompletingRebalance", "PreparingRebalance"),
    ("PreparingRebalance", "CompletingRebalance"),
    ("CompletingRebalance", "Stable"),
} | {(state.value, "Dead") for state in GroupState}
"""(before, after)"""


@pytest.mark.parametrize("before", GroupState)
@pytest.mark.parametrize("after", GroupState)
def test_transitions_are_kafkas(before: GroupState, after: GroupState) -> None:
    if (before.value, after.value) in KAFKAS:
        check_transition(before, after)
    else:
        with pytest.raises(InvalidTransition):
            check_transition(before, after)
