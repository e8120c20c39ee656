"""From when on a session counts: what the quorum carried out, and enough before it."""

from __future__ import annotations

import math

import pytest

from broker.zk.session_contact import SessionContact

pytestmark = pytest.mark.guarantee("C9")

APART = 10.0


def opened(at_ms: float = 100) -> SessionContact:
    contact = SessionContact()
    contact.joined(1, at_ms)
    return contact


def test_session_counts_from_its_opening_and_nothing_before_that() -> None:
    contact = SessionContact()
    assert contact.touched_ms == -math.inf
    contact.joined(1, 100)
    assert contact.touched_ms == 100


@pytest.mark.parametrize(
    ("proofs", "touched"),
    [
        # Alone it vouches for nothing: the leader may not have heard of it yet.
        ([130], 100),
        ([130, 140], 130),
        ([130, 139.9], 100),
        ([130, 140, 150], 140),
        # Others in between neither vouch nor are vouched for, and hold nothing up.
        ([130, 133, 136, 139, 140, 150], 140),
        ([110, 119, 121, 129, 130], 110),
        ([110, 119, 121, 129, 130, 131], 121),
        # Told in another order.
        ([140, 130], 100),
        ([130, 150, 140], 130),
        ([130, 150, 120], 130),
        # None for long, as with ZooKeeper away: the first one after it says only that there was an old one.
        ([130, 1000], 130),
        ([130, 1000, 1010], 1000),
    ],
)
def test_proof_vouches_for_what_was_sent_enough_before_it(proofs: list[float], touched: float) -> None:
    contact = opened()
    seen = [contact.touched_ms]
    for sent_ms in proofs:
        contact.proven(sent_ms, APART)
        seen.append(contact.touched_ms)
    assert contact.touched_ms == touched
    assert seen == sorted(seen), "it never falls"


@pytest.mark.parametrize("every_ms", [0.1, 3, 9.9, 10, 14])
def test_other_writes_never_hold_it_back_for_long(every_ms: float) -> None:
    contact = opened(0)
    regular = [(n * APART, 1) for n in range(1, 50)]
    others = [(n * every_ms, 0) for n in range(1, int(500 / every_ms))]
    for sent_ms, _ in sorted(regular + others):
        contact.proven(sent_ms, APART)
        assert sent_ms - 3 * APART < contact.touched_ms <= sent_ms - APART or sent_ms < APART


def test_return_to_the_session_counts_with_the_first_proof_sent_after_it() -> None:
    contact = opened()
    contact.proven(130, APART)
    contact.joined(1, 500)
    assert contact.touched_ms == 100, "a leader that leads no more may have let us in"
    contact.proven(499, APART)
    assert contact.touched_ms == 130, "asked before: over the connection before, perhaps"
    contact.proven(501, APART)
    assert contact.touched_ms == 500
    contact.proven(511, APART)
    contact.proven(521, APART)
    assert contact.touched_ms == 511


def test_return_that_came_to_nothing_does_not_count_once_there_was_another() -> None:
    contact = opened()
    contact.joined(1, 500)
    contact.joined(1, 600)
    contact.proven(550, APART)
    assert contact.touched_ms == 100
    contact.proven(600, APART)
    assert contact.touched_ms == 600


def test_new_session_owes_nothing_to_the_one_before() -> None:
    contact = opened()
    contact.joined(1, 400)
    contact.joined(2, 500)
    assert contact.touched_ms == 500
    for late in (480, 495):
        contact.proven(late, APART)
    contact.proven(505, APART)
    assert contact.touched_ms == 500
    contact.proven(515, APART)
    contact.proven(525, APART)
    assert contact.touched_ms == 515
