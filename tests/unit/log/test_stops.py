"""Which stops cost bytes."""

from __future__ import annotations

import pytest

from broker.log.stops import older_copy_reason, unclean_reason


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
    known = {"clean": True, "same_kernel": True, "leo": 10, "recovery_point": 4, "high_watermark": 8, "last_end": 10}
    assert bool(unclean_reason(**{**known, **what})) is unclean  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("left_under", "last_registered", "older"),
    [(7, 7, False), (5, 7, True), (-1, 7, True), (9, 7, True), (7, None, False), (-1, None, False)],
)
def test_copy_is_older_when_it_was_left_under_another_registration_than_the_last(
    left_under: int, last_registered: int | None, older: bool
) -> None:
    assert bool(older_copy_reason(left_under, last_registered)) is older
