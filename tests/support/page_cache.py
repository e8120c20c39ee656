"""What the page cache holds of a file."""

from __future__ import annotations

import os
from pathlib import Path


def drop(file: Path, begin: int = 0) -> None:
    """Nothing of it from there on is cached any more, as after the loss of its mount; where nobody has it mapped."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), begin, 0, os.POSIX_FADV_DONTNEED)
