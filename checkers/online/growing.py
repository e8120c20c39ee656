"""The copy of what a growing history holds: whole lines, from the first on.

Decides where a prefix ends. Must not know what lines mean. A copy, because Spark reads a file more than once, and must
find the same in it each time; each block is copied once, however often there is a prefix.
"""

from __future__ import annotations

from pathlib import Path

_BLOCK = 1 << 20


class GrowingHistory:
    """history.jsonl of a run under way. copy: where its prefix is kept; whoever asked for it before has it no more."""

    def __init__(self, path: Path, copy: Path) -> None:
        self.path, self.copy = path, copy
        self._taken = 0
        copy.write_bytes(b"")

    def take(self) -> int:
        """Let the copy end with the last whole line that there is; how many bytes it has then. Raises OSError."""
        with self.path.open("rb") as source, self.copy.open("ab") as target:
            source.seek(self._taken)
            rest = b""
            while block := source.read(_BLOCK):
                whole, newline, after = block.rpartition(b"\n")
                if newline:
                    target.write(rest + whole + newline)
                    self._taken += len(rest) + len(whole) + len(newline)
                    rest = after
                else:
                    rest += block
        return self._taken
