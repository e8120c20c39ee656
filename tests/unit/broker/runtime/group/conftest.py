"""A coordinator of groups that leads its partition; files that need it otherwise have a `world` of their own."""

from __future__ import annotations

import pytest

from tests.support.group_world import GroupWorld


@pytest.fixture
def world() -> GroupWorld:
    world = GroupWorld()
    world.lead()
    return world
