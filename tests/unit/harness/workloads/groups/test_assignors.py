"""The consumer protocol's bytes, and shares of partitions among members."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from harness.workloads.groups import assignors

pytestmark = [pytest.mark.guarantee("V2")]


@pytest.mark.parametrize("owned", [(), (0,), (3, 1, 2)])
def test_subscription_tells_what_is_owned(owned: tuple[int, ...]) -> None:
    assert assignors.owned_in(assignors.subscription("hw", owned)) == owned


@pytest.mark.parametrize("given", [(), (0,), (0, 5, 7)])
def test_assignment_is_read_as_it_was_written(given: tuple[int, ...]) -> None:
    assert assignors.assigned_in(assignors.assignment("hw", given)) == given


def test_no_bytes_assign_nothing() -> None:
    assert assignors.assigned_in(b"") == ()


def test_subscription_is_as_kafka_s_consumers_write_it() -> None:
    """ConsumerProtocolSubscription, version 1: topics, user data (null), owned partitions."""
    raw = assignors.subscription("hw", (2,))
    assert raw.hex() == "00010000000100026877ffffffff00000001000268770000000100000002"


@pytest.mark.parametrize(
    "raw", [b"", b"\x00\x01", b"\x00\x03\x00\x00\x00\x01\x00\x02hw\xff\xff\xff\xff\x00\x00\x00\x00"]
)
def test_other_subscriptions_are_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        assignors.owned_in(raw)


def test_range_gives_every_partition_once_and_even_shares() -> None:
    given = assignors.by_range(["b", "a", "c"], 4)
    assert given == {"a": (0, 1), "b": (2,), "c": (3,)}


def test_cooperative_members_keep_what_they_own() -> None:
    assert assignors.cooperative_sticky({"a": (2, 3), "b": (0,), "c": ()}, 4) == {"a": (2, 3), "b": (0,), "c": (1,)}


def test_a_partition_that_another_must_give_up_first_is_given_to_nobody() -> None:
    assert assignors.cooperative_sticky({"a": (0, 1, 2, 3), "b": ()}, 4) == {"a": (0, 1), "b": ()}
    assert assignors.cooperative_sticky({"a": (0, 1), "b": ()}, 4) == {"a": (0, 1), "b": (2, 3)}


def test_a_partition_that_two_claim_is_given_to_neither() -> None:
    given = assignors.cooperative_sticky({"a": (0, 1), "b": (1,)}, 2)
    assert given == {"a": (0,), "b": ()}


@pytest.mark.parametrize("seed", range(30))
def test_cooperative_assignment_settles_with_every_partition_given_once(seed: int) -> None:
    """Members join again for as long as one gave a partition up, as clients do."""
    rng = Random(seed)
    partitions = rng.randint(1, 12)
    owned: dict[str, tuple[int, ...]] = {"a": tuple(range(partitions))}
    for nth in range(6):
        if len(owned) > 1 and rng.random() < 0.4:
            owned.pop(rng.choice(sorted(owned)))
        else:
            owned[f"m{nth}"] = ()
        rounds = [owned]
        for _ in range(4):
            rounds.append(assignors.cooperative_sticky(rounds[-1], partitions))
            given = [p for mine in rounds[-1].values() for p in mine]
            assert len(given) == len(set(given))
        for before, after in pairwise(rounds):
            for member, mine in after.items():
                taken = {p for other, theirs in before.items() if other != member for p in theirs}
                assert not taken & set(mine), "given while another owns it"
        owned = rounds[-1]
        assert sorted(p for mine in owned.values() for p in mine) == list(range(partitions))
        assert max(map(len, owned.values())) <= -(-partitions // len(owned))
