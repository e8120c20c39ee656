"""A compiler or a fetching tool that is run once for what it leaves in the user's cache."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

_TAIL = 1500
PAUSE_S = 3.0
"""Between tries."""


class BuildFailed(Exception):
    """The tool failed or did not end; the text says which, and ends with the end of its output."""


def build_step(what: str, argv: Sequence[str], folder: Path, timeout_s: float, *, tries: int = 1) -> None:
    """Run it in that folder. what: the tool's name in an error. tries: how often at most, while it exits with an error;
    one that does not end is not tried again. Raises BuildFailed with what the last said.
    """
    for left in reversed(range(tries)):
        done = _run(what, argv, folder, timeout_s)
        if done.returncode == 0:
            return
        if not left:
            raise BuildFailed(f"{what} exited {done.returncode}: {done.stdout[-_TAIL:]}")
        time.sleep(PAUSE_S)


def _run(what: str, argv: Sequence[str], folder: Path, timeout_s: float) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
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
