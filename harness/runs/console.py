"""What a run shows while it goes on: phase, time left, rates, faults, leaders, the last error.

Decides how it looks: a live table on a terminal, a plain line every few seconds elsewhere. Must not know the run: it
is fed the lines of the history. Invariant: `on_line` never blocks on output, so showing costs no operation.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.table import Table

PLAIN_EVERY_S = 5.0
LIVE_EVERY_S = 0.25
RATE_WINDOW_S = 2.0
ANALYSIS = "analysis"


@dataclass(slots=True)
class PartitionLine:
    """What is shown of one partition. epoch, hw: -1 while unknown; isr: broker ids."""

    leader: str | None = None
    epoch: int = -1
    isr: Sequence[int] = ()
    hw: int = -1


@dataclass(slots=True)
class Picture:
    """Everything that is shown."""

    phase: str = "setup"
    left_s: float | None = None
    totals: Counter[str] = field(default_factory=Counter)
    rates: Mapping[str, float] = field(default_factory=dict)
    faults: Sequence[str] = ()
    partitions: Mapping[int, PartitionLine] = field(default_factory=dict)
    last_error: str = ""


class Stats:
    """Takes in history lines from any thread."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._phase = "setup"
        self._until_s: float | None = None
        self._totals: Counter[str] = Counter()
        self._faults: dict[object, str] = {}
        self._partitions: dict[int, PartitionLine] = {}
        self._last_error = ""
        self._marks: list[tuple[float, Counter[str]]] = [(clock_s(), Counter())]

    @property
    def operations(self) -> int:
        """How many client operations have completed."""
        with self._lock:
            return sum(self._totals.values())

    def phase(self, name: str, limit_s: float | None = None) -> None:
        """A phase began; limit_s: how long it may take."""
        with self._lock:
            self._phase = name
            self._until_s = None if limit_s is None else self._clock_s() + limit_s

    def on_line(self, line: Mapping[str, object]) -> None:
        """Take in one line of the history (docs/history-format.md), in the order of the file."""
        kind, type_ = line.get("kind"), line.get("type")
        with self._lock:
            if kind == "client":
                if type_ != "invoke":
                    self._client(line, str(type_))
            elif kind == "nemesis":
                self._nemesis(line)
            elif line.get("f") == "leadership":
                self._leadership(line)
            elif line.get("error") is not None:
                self._last_error = f"{line.get('f')}: {line['error']}"

    def _client(self, line: Mapping[str, object], type_: str) -> None:
        self._totals[type_] += 1
        if type_ == "ok":
            hw, partition = line.get("hw"), line.get("partition")
            if isinstance(hw, int) and isinstance(partition, int):
                known = self._partitions.setdefault(partition, PartitionLine())
                known.hw = max(known.hw, hw)
        elif line.get("error") is not None:
            self._last_error = f"{line['f']} at {line.get('node')}: {line['error']}"

    def _nemesis(self, line: Mapping[str, object]) -> None:
        targets = line.get("targets")
        names = ",".join(str(t) for t in targets) if isinstance(targets, list) else ""
        if line.get("f") == "start":
            self._faults[line.get("fault_id")] = f"{line.get('fault')} {names}".strip()
        elif line.get("f") == "stop":
            self._faults.pop(line.get("fault_id"), None)
        if line.get("error") is not None:
            self._last_error = f"{line.get('fault')}: {line['error']}"

    def _leadership(self, line: Mapping[str, object]) -> None:
        partition, epoch, isr = line.get("partition"), line.get("epoch"), line.get("isr")
        if isinstance(partition, int) and isinstance(epoch, int) and isinstance(isr, list):
            known = self._partitions.setdefault(partition, PartitionLine())
            leader = line.get("leader")
            known.leader = leader if isinstance(leader, str) else None
            known.epoch, known.isr = epoch, tuple(isr)

    def picture(self) -> Picture:
        """The state now; rates over the last seconds."""
        with self._lock:
            now_s = self._clock_s()
            self._marks = [m for m in self._marks if now_s - m[0] <= RATE_WINDOW_S] or self._marks[-1:]
            since_s, before = self._marks[0]
            span_s = max(0.001, now_s - since_s)
            rates = {key: (self._totals[key] - before[key]) / span_s for key in ("ok", "fail", "info")}
            self._marks.append((now_s, Counter(self._totals)))
            left_s = None if self._until_s is None else max(0.0, self._until_s - now_s)
            partitions = {
                index: PartitionLine(p.leader, p.epoch, p.isr, p.hw) for index, p in sorted(self._partitions.items())
            }
            return Picture(
                self._phase,
                left_s,
                Counter(self._totals),
                rates,
                list(self._faults.values()),
                partitions,
                self._last_error,
            )


def plain(picture: Picture) -> str:
    """One line of text."""
    left = "" if picture.left_s is None else f", {picture.left_s:.0f} s left"
    if picture.phase == ANALYSIS:
        return f"{ANALYSIS}{left}"
    rates = " ".join(f"{picture.rates.get(key, 0.0):.0f} {key}/s" for key in ("ok", "fail", "info"))
    parts = [f"{picture.phase}{left}", rates]
    if picture.faults:
        parts.append("faults: " + "; ".join(picture.faults))
    if picture.partitions:
        parts.append(" ".join(f"{i}:{_partition(p)}" for i, p in list(picture.partitions.items())[:8]))
    if picture.last_error:
        parts.append(f"last error: {picture.last_error}")
    return " | ".join(parts)


def _partition(p: PartitionLine) -> str:
    isr = ",".join(str(broker) for broker in p.isr)
    return f"{p.leader or '-'}[{isr}]@{p.hw if p.hw >= 0 else '?'}"


class Console:
    """Shows `Stats` from a thread of its own until `close`."""

    def __init__(
        self, title: str, stats: Stats, *, out: TextIO | None = None, plain_every_s: float = PLAIN_EVERY_S
    ) -> None:
        self._title = title
        self._stats = stats
        self._out = out if out is not None else sys.stdout
        self._plain_every_s = plain_every_s
        self._closing = threading.Event()
        self._began_s = time.monotonic()
        self._said: list[str] = []
        show = self._show_live if _live_is_possible(self._out) else self._show_plain
        self._thread = threading.Thread(target=show, name="console", daemon=True)

    def start(self) -> None:
        """Begin to show, from a thread of its own."""
        self._thread.start()

    def say(self, text: str) -> None:
        """A line that stays."""
        if _live_is_possible(self._out) and self._thread.is_alive():
            self._said.append(text)
        else:
            self._print(text)

    def close(self) -> None:
        """Stop showing; idempotent."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        for text in self._said:
            self._print(text)
        self._said.clear()

    def _print(self, text: str) -> None:
        print(f"[{time.monotonic() - self._began_s:5.1f} s] {text}", file=self._out, flush=True)

    def _show_plain(self) -> None:
        while not self._closing.wait(self._plain_every_s):
            self._print(plain(self._stats.picture()))

    def _show_live(self) -> None:
        from rich.console import Console as RichConsole
        from rich.live import Live

        with Live(console=RichConsole(file=self._out), refresh_per_second=1 / LIVE_EVERY_S, transient=True) as live:
            while not self._closing.wait(LIVE_EVERY_S):
                while self._said:
                    live.console.print(self._said.pop(0), markup=False)
                live.update(render(self._title, self._stats.picture()))


def _live_is_possible(out: TextIO) -> bool:
    if not out.isatty():
        return False
    try:
        import rich.live  # noqa: F401
    except ImportError:
        return False
    return True


def render(title: str, picture: Picture) -> Table:
    """The live table."""
    from rich.table import Table
    from rich.text import Text

    left = "" if picture.left_s is None else f"  {picture.left_s:.0f} s left"
    table = Table(title=Text(f"{title}  {picture.phase}{left}"), show_header=False, expand=False)
    table.add_column()
    table.add_column()
    for key in ("ok", "fail", "info"):
        table.add_row(key, f"{picture.rates.get(key, 0.0):7.0f}/s  {picture.totals[key]:>9,} in all")
    table.add_row("faults", Text("; ".join(picture.faults) or "none"))
    for index, p in picture.partitions.items():
        isr = ",".join(str(broker) for broker in p.isr)
        hw = "?" if p.hw < 0 else f"{p.hw:,}"
        table.add_row(f"partition {index}", Text(f"leader {p.leader or '-'} epoch {p.epoch}  ISR {isr}  HW {hw}"))
    table.add_row("last error", Text(picture.last_error or "none"))
    return table
