"""How a test of the network waits."""

from __future__ import annotations

from collections.abc import Callable

Until = Callable[[Callable[[], bool]], None]
"""Turns the loop until a condition holds."""
