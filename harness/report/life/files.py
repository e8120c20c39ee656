"""The files of a run's folder that tell of one record.

Decides which lines may matter before they are parsed, for a history of a gigabyte holds a few dozen that do. Must not
know what they mean. A torn last line, which a kill -9 leaves, is no line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RunFiles:
    """open: the file at these parts of a path below the run's folder; names: what a folder there holds.

    Both raise OSError for what is not there.
    """

    open: Callable[[Sequence[str]], BinaryIO]
    names: Callable[[Sequence[str]], list[str]]

    @classmethod
    def below(cls, folder: Path) -> RunFiles:
        """Of a folder of one's own, whose links are followed."""
        return cls(
            lambda parts: folder.joinpath(*parts).open("rb"),
            lambda parts: sorted(path.name for path in folder.joinpath(*parts).iterdir()),
        )

    def history(self, wanted: re.Pattern[bytes]) -> Iterator[Line]:
        """Lines of the history in which the pattern occurs."""
        return self._lines(("history.jsonl",), wanted)

    def events(self, node: str, p: str) -> Iterator[Line]:
        """Lines of a node's event log that may be about partition p, and those of its starts and stops."""
        wanted = re.compile(b'"%b"|"e":"(?:start|stop)"' % re.escape(json.dumps(p)[1:-1].encode()))
        return self._lines(("evidence", node, "events.jsonl"), wanted)

    def segments(self, node: str, p: str) -> list[str]:
        """Names of the log files of a node's replica, by their offsets; empty where there is none."""
        try:
            names = self.names(("evidence", node, "data", p))
        except OSError:
            return []
        return sorted(name for name in names if re.fullmatch(r"\d{20}\.log", name))

    def segment(self, node: str, p: str, name: str) -> bytes:
        """The content of one. Raises OSError."""
        with self.open(("evidence", node, "data", p, name)) as file:
            return file.read()

    def _lines(self, parts: Sequence[str], wanted: re.Pattern[bytes]) -> Iterator[Line]:
        with self.open(parts) as file:
            for raw in file:
                if not raw.endswith(b"\n") or wanted.search(raw) is None:
                    continue
                try:
                    line = json.loads(raw)
                except ValueError:
                    continue
                if isinstance(line, dict):
                    yield line
