"""What a coordinator knows of offsets is what its log says, and what it has acknowledged stays until something later
takes its place: through stalls, fences, moves, topics that go and come, and transactions that end late.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.runtime.group_offsets_life import Life
from tests.support.examples import examples

pytestmark = pytest.mark.guarantee("K2")


@examples(200)
@given(st.integers(0, 2**32))
def test_a_coordinator_knows_what_its_log_says(seed: int) -> None:
    life = Life(seed)
    for _ in range(life.rng.randrange(1, 5)):
        for _ in range(life.rng.randrange(40)):
            life.step()
        life.check()
