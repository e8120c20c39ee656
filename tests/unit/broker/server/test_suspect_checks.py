"""Whether the session may be over is looked at for as long as the broker runs."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.server.control_plane import ControlPlane
from tests.support.fake_loop import FakeLoop


@pytest.mark.guarantee("C9")
def test_look_that_fails_is_not_the_last_one() -> None:
    """A broker that was fenced by its own clock would never serve again."""
    loop, seen = FakeLoop(), [True, False]
    told: list[bool] = []

    def on_suspect(passed: bool) -> None:
        told.append(passed)
        if passed:
            raise RuntimeError("nobody foresaw this")

    control = ControlPlane.__new__(ControlPlane)
    control._closed = False
    control._loop = loop
    control._on_suspect = on_suspect
    control.registration = cast(Any, SimpleNamespace(suspect=lambda: seen.pop(0)))
    # The loop outlives what a callback raises.
    with contextlib.suppress(RuntimeError):
        control._check_suspect()
    loop.run_due(loop.now + 1000)
    assert told == [True, False]
