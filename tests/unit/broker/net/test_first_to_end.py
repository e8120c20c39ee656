"""Which numbers the sockets get that are to end first."""

from __future__ import annotations

import sys

import pytest

from broker.net.first_to_end import SILENT_CONNECTIONS_MAX, first_silent

pytestmark = pytest.mark.guarantee("C10")


@pytest.mark.parametrize("limit", [256, 896, 16_000, 1 << 20, sys.maxsize])
def test_the_numbers_lie_below_the_limit_of_connections_and_above_what_comes_first(limit: int) -> None:
    lowest = first_silent(limit)
    assert lowest is not None
    assert lowest > SILENT_CONNECTIONS_MAX
    assert lowest + SILENT_CONNECTIONS_MAX < limit
    assert lowest <= 16_384, "the kernel keeps memory for each number up to the highest"


def test_a_process_that_may_have_few_descriptors_moves_none() -> None:
    assert first_silent(100) is None
