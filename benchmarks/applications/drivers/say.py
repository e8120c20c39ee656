"""What the drivers in Python print, and how often they work."""

from __future__ import annotations

import sys
import time

PACE_S = 0.01


def say_success() -> None:
    """One record, commit or transaction is acknowledged now."""
    sys.stdout.write(f"{time.monotonic_ns()}\n")
    sys.stdout.flush()


def say_failure(error: object) -> None:
    """The library gave this error to the application."""
    sys.stdout.write(f"failed: {error!r}\n".replace("\n", " ").rstrip() + "\n")
    sys.stdout.flush()
