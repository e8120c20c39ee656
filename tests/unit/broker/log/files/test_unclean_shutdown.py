"""Which stops cost bytes."""

from __future__ import annotations

from typing import Any

import pytest

from broker.log.files.unclean_shutdown import damage_reason, is_shortened, older_copy_reason, unclean_reason, worse
from broker.model.ids import TopicPartition
from broker.model.log_errors import CorruptLog


def reason(**what: Any) -> str:
    """Of a stop that differs in this from one that cost nothing."""
    known = {"clean": True, "same_kernel": True, "leo": 10, "recovery_point": 4, "high_watermark": 8, "last_end": 10}
    return unclean_reason(**{**known, **what})


@pytest.mark.parametrize(
    ("what", "unclean"),
    [
        ({}, False),
        ({"clean": False}, False),
        ({"clean": False, "same_kernel": False, "last_end": None}, True),
        ({"same_kernel": False, "last_end": None}, False),
        ({"leo": 9, "clean": False}, True),
        ({"leo": 11, "clean": False}, False),
        ({"recovery_point": 11}, True),
        ({"high_watermark": 11}, True),
        ({"last_end": 11}, True),
        ({"last_end": None}, False),
    ],
)
def test_stop_is_unclean_when_host_was_lost_or_log_is_shorter_than_known(
    what: dict[str, int | bool | None], unclean: bool
) -> None:
    assert bool(reason(**what)) is unclean


@pytest.mark.parametrize(
    ("what", "shortened"),
    [
        ({}, True),
        ({"clean": False, "same_kernel": False, "last_end": None}, True),
        ({"clean": False, "same_kernel": False, "last_end": None, "high_watermark": 11}, True),
        # No power failure takes what was flushed, nor a kill what the page cache has: somebody put another log there.
        ({"clean": False, "same_kernel": False, "last_end": None, "recovery_point": 11}, False),
        ({"clean": False, "leo": 9}, False),
        ({"high_watermark": 11}, False),
    ],
)
def test_log_is_what_it_was_but_for_its_end_where_a_power_failure_explains_what_is_missing(
    what: dict[str, int | bool | None], shortened: bool
) -> None:
    assert is_shortened(reason(**what)) is shortened


def test_older_copy_and_log_that_was_made_anew_are_not_what_they_were() -> None:
    assert not is_shortened(older_copy_reason(5, 7))
    assert not is_shortened(damage_reason(CorruptLog(TopicPartition("t", 0), "segment 0", "bad")))
    assert not is_shortened("made anew")


def test_of_two_reasons_the_one_stays_that_a_power_failure_does_not_explain() -> None:
    power = reason(clean=False, same_kernel=False)
    other, cut = older_copy_reason(5, 7), reason(leo=9)
    assert [worse("", ""), worse(power, ""), worse("", power), worse(power, power)] == ["", power, power, power]
    assert [worse(other, ""), worse("", other), worse(other, power), worse(power, other)] == [other] * 4
    assert worse(other, cut) == other, "the first of them"


@pytest.mark.parametrize(
    ("left_under", "last_registered", "older"),
    [(7, 7, False), (5, 7, True), (-1, 7, True), (9, 7, True), (7, None, False), (-1, None, False)],
)
def test_copy_is_older_when_it_was_left_under_another_registration_than_the_last(
    left_under: int, last_registered: int | None, older: bool
) -> None:
    assert bool(older_copy_reason(left_under, last_registered)) is older
