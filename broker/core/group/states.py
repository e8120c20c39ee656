"""The states of a group, and which may follow which.

Source: kafka.coordinator.group.GroupState.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class GroupState(Enum):
    """Values are the names that DescribeGroups and ListGroups show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


VALID_PREDECESSORS: Final[dict[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}


class InvalidTransition(Exception):
    """A state that must not follow the current one: an error of the rules, never of a client."""


def check_transition(before: GroupState, after: GroupState) -> None:
    """Raises InvalidTransition unless `after` may follow `before`."""
    if before not in VALID_PREDECESSORS[after]:
        raise InvalidTransition(f"a group cannot go from {before.value} to {after.value}")
