"""The broker's own log, which goes to stderr: one record is one line, whatever a client called its topics.

Names and texts from the wire are in many messages. Here, where all of them pass, every character that would end a
line, move a terminal's cursor or hide what follows is written as an escape; a traceback keeps its own lines, but no
line of an exception's text begins one. Of a warning or error that repeats only the first BURST records in INTERVAL_S
are written, the others are counted.
"""

from __future__ import annotations

import logging
import re
import time
import traceback
from collections.abc import Callable
from typing import TextIO

BURST = 100
INTERVAL_S = 10.0
_LINE_MAX = 16_384
_HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_HARMFUL_IN_LINES = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def one_line(text: str) -> str:
    """The text without what a terminal or a reader of lines would obey; cut off after _LINE_MAX characters."""
    if len(text) > _LINE_MAX:
        text = f"{text[:_LINE_MAX]}… ({len(text)} characters)"
    return _HARMFUL.sub(_escape, text)


class LineFormatter(logging.Formatter):
    """`16:35:01.355 INFO broker: message`, and a traceback below it."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line, harmless whatever the message's arguments are."""
        return one_line(super().formatMessage(record))

    def formatException(self, ei: object) -> str:
        """The lines of a traceback. ei: as `sys.exc_info` gives it."""
        error = ei[1] if isinstance(ei, tuple) else None
        if not isinstance(error, BaseException):
            return "no traceback"
        return "".join(map(_of_traceback, traceback.TracebackException.from_exception(error).format())).rstrip("\n")


def _of_traceback(part: str) -> str:
    """A frame with the lines of its source, or one line of text."""
    body = part.strip("\n")
    if body.startswith("  "):
        return _HARMFUL_IN_LINES.sub(_escape, part)
    before, after = part[: len(part) - len(part.lstrip("\n"))], part[len(part.rstrip("\n")) :]
    return before + one_line(body) + after


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes records to a stream; see the module. Any thread."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """clock: in seconds."""
        super().__init__(stream)
        self.setFormatter(LineFormatter())
        self._clock = clock
        self._until = clock() + INTERVAL_S
        self._seen: dict[tuple[str, int, str], int] = {}
        """Records of this interval, by logger, level and message without its arguments: as many as the code has."""
        self._last: dict[tuple[str, int, str], logging.LogRecord] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count it. Holding the handler's lock."""
        if self._clock() >= self._until:
            self._end_interval()
        if logging.WARNING <= record.levelno < logging.CRITICAL:
            kind = (record.name, record.levelno, str(record.msg)[:_LINE_MAX])
            self._seen[kind] = self._seen.get(kind, 0) + 1
            if self._seen[kind] > BURST:
                self._last[kind] = record
                return
        super().emit(record)

    def _end_interval(self) -> None:
        for kind, record in self._last.items():
            name, level, _ = kind
            text = f"and {self._seen[kind] - BURST} more of these, the last: {record.getMessage()}"
            super().emit(logging.LogRecord(name, level, record.pathname, record.lineno, text, None, None))
        self._seen.clear()
        self._last.clear()
        self._until = self._clock() + INTERVAL_S

    def close(self) -> None:
        """Tell what was counted."""
        self.acquire()
        try:
            self._end_interval()
        finally:
            self.release()
        super().close()
