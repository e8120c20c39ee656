"""The console with a thread, on a pipe, on a terminal, and on outputs that are stuck or broken."""

from __future__ import annotations

import io
import os
import pty
import re
import struct
import termios
import threading
import time
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path

import pytest

from harness.operations.history import MAIN, SETUP, History
from harness.operations.op import Completion, Invocation
from harness.runs.console import Console, Stats
from tests.support.wait import eventually


class Stuck(io.StringIO):
    """A terminal that somebody has stopped: writing waits until `go`."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting, self.go = threading.Event(), threading.Event()

    def write(self, text: str) -> int:
        self.waiting.set()
        assert self.go.wait(30)
        return super().write(text)


@pytest.fixture
def stats() -> Stats:
    """By a clock that stands still: what took no time is shown as that on a busy machine, too."""
    return Stats([SETUP, MAIN, "heal"], clock_s=lambda: 100.0)


def test_console_without_a_terminal_prints_phases_and_plain_lines(stats: Stats) -> None:
    out = io.StringIO()
    console = Console("t", stats, out=out, plain_every_s=0.001)
    console.start()
    stats.phase(SETUP, 60.0)
    stats.phase(MAIN, 30.0)
    eventually(lambda: "main, 30 s left | 0 ok/s" in out.getvalue(), "a line of the main phase")
    console.say("a line that stays")
    console.close()
    lines = out.getvalue().splitlines()
    assert all(re.match(r"\[ *\d+\.\d s\] ", line) for line in lines)
    assert next(line.split("] ")[1] for line in lines if "phase" in line) == "phase 1 of 3: setup, at most 60 s"
    assert any("phase 2 of 3: main, at most 30 s (the one before took 0.0 s)" in line for line in lines)
    assert "a line that stays" in lines[-1]
    assert "\x1b" not in out.getvalue()


def test_console_said_lines_come_at_once_and_in_order(stats: Stats) -> None:
    out = io.StringIO()
    console = Console("t", stats, out=out, plain_every_s=600.0)
    console.start()
    for text in ("one", "two", "three"):
        console.say(text)
    eventually(lambda: "three" in out.getvalue(), "the lines")
    assert [line.split("] ")[1] for line in out.getvalue().splitlines()] == ["one", "two", "three"]
    console.close()
    console.close()
    console.say("after the end")
    assert out.getvalue().endswith("after the end\n")


def test_console_that_is_stuck_holds_up_no_operation_and_no_phase(stats: Stats, tmp_path: Path) -> None:
    out = Stuck()
    console = Console("t", stats, out=out, plain_every_s=0.001)
    console.start()
    assert out.waiting.wait(30)
    with History(tmp_path / "h", 0, on_line=stats.on_line) as history:
        invocation = Invocation(0, "send", MAIN, "hw", 0, "n1", {"values": [1]})
        began_s = time.monotonic()
        history.begin_phase(MAIN)
        for _ in range(100):
            history.complete(history.invoke(invocation), invocation, Completion("ok", time.monotonic_ns()))
        console.say("said")
        assert time.monotonic() - began_s < 10
    assert not out.go.is_set()
    assert stats.operations == 100
    out.go.set()
    console.close()
    assert "phase 1 of 2: main" in out.getvalue()


def test_history_hands_on_what_latencies_are_made_of(stats: Stats, tmp_path: Path) -> None:
    with History(tmp_path / "h", 0, clock_ns=lambda: 5_000_000, on_line=stats.on_line) as history:
        invocation = Invocation(0, "send", MAIN, "hw", 0, "n1", {"values": [1]})
        history.complete(history.invoke(invocation), invocation, Completion("ok", 12_000_000))
    assert stats.picture().p50_ms == 7.0


@pytest.fixture
def terminal() -> Iterator[tuple[int, io.TextIOWrapper]]:
    """(the side that sees what is shown, the side that is written to), 24 lines of 80 columns."""
    seen, written = pty.openpty()
    ioctl(written, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    out = os.fdopen(written, "w", encoding="utf-8")
    yield seen, out
    out.close()
    os.close(seen)


def test_console_on_a_terminal_shows_the_table_and_keeps_what_was_said(
    terminal: tuple[int, io.TextIOWrapper], stats: Stats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    seen, out = terminal
    shown = bytearray()

    def read() -> None:
        try:
            while chunk := os.read(seen, 65536):
                shown.extend(chunk)
                if b"END" in chunk:
                    return
        except OSError:
            return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    console = Console("highwater demo", stats, out=out)
    console.start()
    stats.phase(SETUP, 60.0)
    stats.phase("analysis")
    stats.jobs(23, 61)
    console.say("heal: [n1] does not come back")
    eventually(lambda: "analysis: 23 of 61 jobs" in shown.decode(errors="replace"), "the jobs of the analysis")
    console.close()
    print("END", file=out, flush=True)
    reader.join(30)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert "highwater demo" in text
    assert "phase 1 of 3: setup, at most 60 s" in text
    assert "heal: [n1] does not come back" in text, "what looks like markup is shown as it is"
    assert max(len(line.rstrip()) for line in re.split(r"[\r\n]+", text)) <= 80
