"""Consumer groups: random requests, times, failed writes and crashes, and clients that behave."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.core.group_clients import Clients
from tests.property.core.group_world import World
from tests.support.examples import examples

pytestmark = pytest.mark.guarantee("group-rules")


@examples(300)
@given(st.integers(0, 2**32))
def test_whatever_anybody_asks_a_group_keeps_its_promises(seed: int) -> None:
    world = World(random.Random(seed))
    for _ in range(150):
        world.step()
    world.silence()


@examples(200)
@given(st.integers(0, 2**32))
def test_clients_that_behave_share_the_partitions_whatever_happened_before(seed: int) -> None:
    clients = Clients(random.Random(seed))
    for _ in range(200):
        clients.chaos()
    clients.calm()
    clients.check_settled()
