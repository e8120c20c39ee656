"""Ends a process that leads a session of its own, with all that it started: checkers, and the Java that Spark starts.

It is killed, before it could tidy up: its files are below a folder that whoever started it removes.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Returns once it is over."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
