"""What a test has Spark's Python workers do."""

from __future__ import annotations

import sys

OURS = ("checkers", "tests", "harness", "nemesis", "broker")


def where(_: object) -> list[str]:
    """The interpreter that runs this, and what of ours it has imported."""
    return [sys.executable, *sorted(name for name in sys.modules if name.partition(".")[0] in OURS)]
