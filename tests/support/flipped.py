"""Bits that flip in a file."""

from __future__ import annotations

from pathlib import Path


def flip(path: Path, position: int, bits: int = 1) -> None:
    """These bits of one byte, in place: whoever has the file open, or mapped, sees it. Below 0: from its end."""
    with path.open("r+b") as file:
        file.seek(position, 0 if position >= 0 else 2)
        at = file.tell()
        flipped = file.read(1)[0] ^ bits
        file.seek(at)
        file.write(bytes([flipped]))
