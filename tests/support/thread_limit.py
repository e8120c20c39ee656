"""A host that starts no further thread: pids.max or RLIMIT_NPROC is reached."""

from __future__ import annotations

import threading

import pytest


def refuse_threads(patch: pytest.MonkeyPatch) -> None:
    """From now on; those that run go on."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    patch.setattr(threading.Thread, "start", refuse)
