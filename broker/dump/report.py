"""What a dump says: contents on stdout, what is wrong on stderr, and whether anything was.

Damage is reported where it is met. What an index says against its log, and gaps between offsets, come last and by file,
as in Kafka's tool; of each kind at most PAIRS_MAX are kept per file, the rest is counted, so that memory stays bounded.
Source: kafka DumpLogSegments (the lines after the contents).
"""

from __future__ import annotations

from enum import Enum
from typing import Final, TextIO

PAIRS_MAX: Final = 10_000


class Finding(Enum):
    """Kinds of pairs, in the order in which they are printed: (first line, with the file's path; line of a pair)."""

    INDEX_MISMATCH = ("Mismatches in :{}", "  Index offset: {}, log offset: {}")
    TIME_MISMATCH = ("Found timestamp mismatch in :{}", "  Index timestamp: {}, log timestamp: {}")
    TIME_ORDER = ("Found out of order timestamp in :{}", "  Index timestamp: {}, Previously indexed timestamp: {}")
    OFFSET_NOT_FOUND = (
        "The following indexed offsets are not found in the log.",
        "Indexed offset: {}, found log offset: {}",
    )
    NON_CONSECUTIVE = ("Non-consecutive offsets in {}", "  {} is followed by {}")


class OutputFailed(Exception):
    """The output cannot be written. closed: its reader has gone."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"the output cannot be written: {error.strerror}")
        self.closed = isinstance(error, BrokenPipeError)


class Report:
    """One dump's output. Its methods raise OutputFailed, never OSError, which is what files that are read raise."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out = out
        self._err = err
        self._pairs: dict[tuple[Finding, str], list[tuple[int, int]]] = {}
        self._unkept: dict[tuple[Finding, str], int] = {}
        self.wrong = False
        """Whether anything was found that should not be."""

    def line(self, text: str) -> None:
        """A line of what a file holds."""
        _write(self._out, text)

    def problem(self, path: str, reason: str) -> None:
        """Something is wrong with the file; the line stands where the contents have got to."""
        self.wrong = True
        _flush(self._out)
        _write(self._err, f"{path}: {reason}")
        _flush(self._err)

    def pair(self, finding: Finding, path: str, first: int, second: int, *, harmless: bool = False) -> None:
        """Keep a pair to be printed at the end. path: absolute."""
        self.wrong = self.wrong or not harmless
        kept = self._pairs.setdefault((finding, path), [])
        if len(kept) < PAIRS_MAX:
            kept.append((first, second))
        else:
            self._unkept[finding, path] = self._unkept.get((finding, path), 0) + 1

    def close(self) -> None:
        """Print what was kept for the end."""
        _flush(self._out)
        for finding in Finding:
            head, row = finding.value
            for (kind, path), pairs in self._pairs.items():
                if kind is not finding:
                    continue
                _write(self._err, head.format(path))
                for first, second in pairs:
                    _write(self._err, row.format(first, second))
                if unkept := self._unkept.get((kind, path)):
                    _write(self._err, f"  and {unkept} more")
        _flush(self._err)


def _write(stream: TextIO, line: str) -> None:
    try:
        stream.write(line + "\n")
    except OSError as error:
        raise OutputFailed(error) from error


def _flush(stream: TextIO) -> None:
    try:
        stream.flush()
    except OSError as error:
        raise OutputFailed(error) from error
