"""Standard output that cannot be written any more: its reader has gone, or its disk is full."""

from __future__ import annotations

import os
import sys


def forget_output() -> None:
    """What is buffered must not fail once more when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
