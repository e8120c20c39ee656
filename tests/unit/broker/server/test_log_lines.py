"""The broker's log: nothing that is logged makes a line, or a part of one, of its own; repeats are counted."""

from __future__ import annotations

import io
import logging
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.server.log_lines import BURST, INTERVAL_S, LineHandler, one_line
from checkers.evidence.node_logs import failures

FORGED = "t\n12:00:00.000 CRITICAL broker: all is lost"
_RECORD = re.compile(r"\d\d:\d\d:\d\d\.\d{3} (INFO|WARNING|ERROR) test: ")


class Log:
    """A logger, what its handler wrote, and a clock."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.now = 0.0
        self.handler = LineHandler(self.stream, lambda: self.now)
        self.logger = logging.Logger("test", logging.INFO)
        self.logger.addHandler(self.handler)

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().split("\n")[:-1]


@given(st.text())
def test_one_record_is_one_line(text: str) -> None:
    log = Log()
    log.logger.info("topic %s", text)
    (line,) = log.lines
    assert _RECORD.match(line)
    assert line.isprintable() or all(character.isprintable() or ord(character) > 0x9F for character in line)
    assert len(log.stream.getvalue().splitlines()) == 1


def test_line_feeds_nuls_and_escape_sequences_are_shown() -> None:
    assert one_line("a\nb\0c\x1b[2Jd\r\u202e\ud800ü") == "a\\x0ab\\x00c\\x1b[2Jd\\x0d\\u202e\\ud800ü"


def test_line_ends_somewhere() -> None:
    assert len(one_line("x" * 10_000_000)) < 20_000


def test_text_of_an_exception_begins_no_line() -> None:
    log = Log()
    try:
        try:
            raise KeyError("first\x1b")
        except KeyError:
            raise ValueError(FORGED) from None
    except ValueError:
        log.logger.exception("settings of %s", FORGED)
    assert [line for line in log.lines if _RECORD.match(line)] == [log.lines[0]]
    assert not [line for line in log.lines if line.startswith("12:00:00.000 CRITICAL")]
    assert log.lines[-1] == "ValueError: t\\x0a12:00:00.000 CRITICAL broker: all is lost"
    (failure,) = failures(log.lines)
    assert failure.startswith(log.lines[0][:40]), "the lab still reads tracebacks"
    assert "raise ValueError(FORGED)" in log.stream.getvalue()


def test_chain_of_exceptions_is_written_whole() -> None:
    log = Log()
    try:
        try:
            raise OSError("disk\nfull")
        except OSError as error:
            raise ValueError("no\nlog") from error
    except ValueError:
        log.logger.warning("failed", exc_info=True)
    assert {"OSError: disk\\x0afull", "ValueError: no\\x0alog"} <= set(log.lines)
    assert "The above exception was the direct cause of the following exception:" in log.lines


def test_warnings_that_repeat_are_counted() -> None:
    log = Log()
    for number in range(5000):
        log.logger.warning("bad request %d", number)
        log.logger.info("request %d", number)
    log.logger.warning("something else")
    assert sum("bad request" in line for line in log.lines) == BURST
    assert sum(" request " in line for line in log.lines) == BURST + 5000
    assert log.lines[-1].endswith("WARNING test: something else")
    log.now = INTERVAL_S
    log.logger.info("later")
    assert log.lines[-2].endswith(f"WARNING test: and {5000 - BURST} more of these, the last: bad request 4999")
    log.logger.warning("bad request %d", 7)
    assert log.lines[-1].endswith("bad request 7")


@pytest.mark.parametrize("count", [BURST, BURST + 1])
def test_count_is_told_at_the_end_too(count: int) -> None:
    log = Log()
    for _ in range(count):
        log.logger.error("again")
    log.handler.close()
    assert len(log.lines) == count
    assert log.lines[-1].endswith("again")
