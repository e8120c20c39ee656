"""Shows a run from a thread of its own: a live table on a terminal, a plain line every few seconds elsewhere.

Decides when something is shown. Must not know what there is to show, or how it looks. Invariant: from `start` to
`close`, `say` and what `Stats` tells wait for no output: they leave a line in a queue, so showing costs no operation.
This holds where the output is stuck or broken, too.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from contextlib import suppress
from typing import NamedTuple, TextIO

from harness.runs.console.picture import Phase
from harness.runs.console.plain import phase_line, plain
from harness.runs.console.stats import Stats

PLAIN_EVERY_S = 5.0
LIVE_EVERY_S = 0.25


class _Line(NamedTuple):
    """A line that stays; None as text ends the showing. at_s: when it was said."""

    text: str | None
    at_s: float


class Console:
    """Shows `Stats` from a thread of its own until `close`."""

    def __init__(
        self, title: str, stats: Stats, *, out: TextIO | None = None, plain_every_s: float = PLAIN_EVERY_S
    ) -> None:
        self._title = title
        self._stats = stats
        self._out = out if out is not None else sys.stdout
        self._plain_every_s = plain_every_s
        self._began_s = time.monotonic()
        self._lines: queue.SimpleQueue[_Line] = queue.SimpleQueue()
        self._closing = False
        show = self._show_live if _live_is_possible(self._out) else self._show_plain
        self._thread = threading.Thread(target=show, name="console", daemon=True)
        stats.on_phase = self._on_phase

    def start(self) -> None:
        """Begin to show, from a thread of its own."""
        self._thread.start()

    def say(self, text: str) -> None:
        """A line that stays."""
        line = _Line(text, time.monotonic())
        if self._thread.ident is not None and not self._closing:
            self._lines.put(line)
        else:
            self._print(line)

    def close(self) -> None:
        """Stop showing, once all that was said is shown; idempotent."""
        if self._thread.ident is not None:
            self._closing = True
            self._lines.put(_Line(None, 0.0))
            self._thread.join()
        # What was said while the thread ended, or before it broke.
        with suppress(queue.Empty):
            while True:
                line = self._lines.get_nowait()
                if line.text is not None:
                    self._print(line)

    def _on_phase(self, phase: Phase, before_s: float) -> None:
        self.say(phase_line(phase, before_s))

    def _stamped(self, line: _Line) -> str:
        return f"[{line.at_s - self._began_s:6.1f} s] {line.text}"

    def _print(self, line: _Line) -> None:
        print(self._stamped(line), file=self._out, flush=True)

    def _take(self, wait_s: float) -> _Line | None:
        """The next line; None where none has come in that time."""
        try:
            return self._lines.get(timeout=wait_s) if wait_s > 0 else self._lines.get_nowait()
        except queue.Empty:
            return None

    def _show_plain(self) -> None:
        due_s = time.monotonic() + self._plain_every_s
        while True:
            line = self._take(due_s - time.monotonic())
            if line is None:
                self._print(_Line(plain(self._stats.picture()), time.monotonic()))
                due_s = time.monotonic() + self._plain_every_s
            elif line.text is None:
                return
            else:
                self._print(line)

    def _show_live(self) -> None:
        from rich.console import Console as RichConsole
        from rich.live import Live

        from harness.runs.console.table import render

        console = RichConsole(file=self._out)
        ascii_only = not console.encoding.startswith("utf")
        with Live(console=console, auto_refresh=False, transient=True) as live:
            due_s = 0.0
            while True:
                line = self._take(due_s - time.monotonic())
                if line is None:
                    picture, size = self._stats.picture(), console.size
                    table = render(self._title, picture, width=size.width, height=size.height, ascii_only=ascii_only)
                    live.update(table, refresh=True)
                    due_s = time.monotonic() + LIVE_EVERY_S
                elif line.text is None:
                    return
                else:
                    console.print(self._stamped(line), markup=False, highlight=False)


def _live_is_possible(out: TextIO) -> bool:
    if not out.isatty():
        return False
    try:
        import rich.live  # noqa: F401
    except ImportError:
        return False
    return True
