"""A compiler or a fetching tool that is run once for what it leaves in the user's cache."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

_TAIL = 1500


class BuildFailed(Exception):
    """The tool failed or did not end; the text says which, and ends with the end of its output."""


def build_step(what: str, argv: Sequence[str], folder: Path, timeout_s: float) -> None:
    """Run it in that folder. what: the tool's name in an error. Raises BuildFailed."""
    try:
        done = subprocess.run(
            argv,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BuildFailed(f"{what} did not end within {timeout_s:g} s") from None
    if done.returncode != 0:
        raise BuildFailed(f"{what} exited {done.returncode}: {done.stdout[-_TAIL:]}")
