"""A follower whose fetch session is open."""

from __future__ import annotations

import pytest

from tests.support.following_broker import Follower


@pytest.fixture
def follower() -> Follower:
    follower = Follower()
    follower.follow(0, 1)
    follower.open_session()
    return follower
