"""The ISR's one change under way, and every answer to it."""

from __future__ import annotations

import pytest

from broker.core.replication.isr import IsrState, Proposal, ResponseEffect
from broker.wire.errors import ErrorCode

pytestmark = pytest.mark.guarantee("R6", "isr-changes")

ALL = frozenset({1, 2, 3})


def proposal(kind: str, *isr: int, partition_epoch: int = 4) -> Proposal:
    return Proposal("shrink" if kind == "shrink" else "expand", isr, 7, partition_epoch, {}, "")


def answered(state: IsrState, to: Proposal, error: int, *isr: int, at: int = 5, epoch: int = 7) -> ResponseEffect:
    return state.handle_response(to, error, frozenset(isr), at, epoch)


def test_pending_expansion_counts_at_once() -> None:
    state = IsrState(frozenset({1, 2}), 4)
    state.propose(proposal("expand", 1, 2, 3))
    assert state.maximal == ALL
    assert state.committed == {1, 2}


def test_pending_shrink_counts_only_once_committed() -> None:
    state = IsrState(ALL, 4)
    shrink = proposal("shrink", 1, 2)
    state.propose(shrink)
    assert state.maximal == ALL
    assert answered(state, shrink, 0, 1, 2) is ResponseEffect.COMMITTED
    assert (state.maximal, state.partition_epoch, state.pending) == (frozenset({1, 2}), 5, None)


def test_echo_of_an_unchanged_set_at_the_same_epoch_is_taken() -> None:
    state = IsrState(ALL, 4)
    shrink = proposal("shrink", 1, 2)
    state.propose(shrink)
    assert answered(state, shrink, 0, 1, 2, at=4) is ResponseEffect.COMMITTED


def test_one_proposal_at_a_time() -> None:
    state = IsrState(ALL, 4)
    state.propose(proposal("shrink", 1, 2))
    with pytest.raises(AssertionError):
        state.propose(proposal("shrink", 1, 3))


def test_empty_isr_cannot_be_proposed() -> None:
    with pytest.raises(AssertionError):
        IsrState(ALL, 4).propose(proposal("shrink"))


def test_response_to_another_proposal_is_ignored() -> None:
    state = IsrState(ALL, 4)
    state.propose(proposal("shrink", 1, 2))
    assert answered(state, proposal("shrink", 1, 2), 0, 1) is ResponseEffect.IGNORE
    assert state.committed == ALL


@pytest.mark.parametrize(("at", "epoch"), [(3, 7), (5, 6), (5, 8)])
def test_stale_success_is_ignored(at: int, epoch: int) -> None:
    state = IsrState(ALL, 4)
    shrink = proposal("shrink", 1, 2)
    state.propose(shrink)
    assert answered(state, shrink, 0, 1, 2, at=at, epoch=epoch) is ResponseEffect.IGNORE
    assert state.pending is shrink


@pytest.mark.parametrize("error", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_certain_refusal_reverts(error: ErrorCode) -> None:
    state = IsrState(frozenset({1, 2}), 4)
    expand = proposal("expand", 1, 2, 3)
    state.propose(expand)
    assert answered(state, expand, error) is ResponseEffect.REVERTED
    assert (state.maximal, state.pending) == (frozenset({1, 2}), None)


def test_refusal_after_an_unknown_outcome_is_not_believed_at_once() -> None:
    state = IsrState(frozenset({1, 2}), 4)
    expand = proposal("expand", 1, 2, 3)
    state.propose(expand)
    assert answered(state, expand, ErrorCode.REQUEST_TIMED_OUT) is ResponseEffect.RETRY
    assert answered(state, expand, ErrorCode.INELIGIBLE_REPLICA) is ResponseEffect.RETRY
    assert state.maximal == ALL
    assert answered(state, expand, ErrorCode.INELIGIBLE_REPLICA) is ResponseEffect.RETRY
    assert answered(state, expand, ErrorCode.INELIGIBLE_REPLICA) is ResponseEffect.REVERTED


@pytest.mark.parametrize(
    "error",
    [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
)
def test_out_of_date_waits_for_the_controllers_request(error: ErrorCode) -> None:
    state = IsrState(frozenset({1, 2}), 4)
    expand = proposal("expand", 1, 2, 3)
    state.propose(expand)
    assert answered(state, expand, error) is ResponseEffect.AWAIT
    assert (state.maximal, state.pending) == (ALL, expand)
    state.learn(frozenset({1}), 5)
    assert (state.maximal, state.pending) == (frozenset({1}), None)


@pytest.mark.parametrize("error", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH])
def test_unclear_response_is_requested_again(error: ErrorCode) -> None:
    state = IsrState(ALL, 4)
    shrink = proposal("shrink", 1, 2)
    state.propose(shrink)
    assert answered(state, shrink, error) is ResponseEffect.RETRY
    assert state.pending is shrink
