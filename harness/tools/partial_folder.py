"""A folder of one's own beside what is being made: it gets its name once it is whole.

A process id would not do: threads share it, and in sandboxes, whose ids begin at 1, runs beside each other do.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def partial_folder(target: Path) -> Iterator[Path]:
    """Empty, on the target's file system, so that it, or what is in it, can be renamed to the target; gone afterwards.

    The folder above the target is made.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    try:
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
