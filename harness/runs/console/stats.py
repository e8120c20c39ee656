"""Takes in what happens in a run, and says at any time what there is to show of it.

Decides what of a line of the history counts for what. Must not know how anything looks. Invariants: `on_line` never
waits for output, only for a lock that is held for moments; memory is bounded, however long the run.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from harness.operations.history import SETUP
from harness.runs.console.figures import Latencies, PerSecond, percentile, recent
from harness.runs.console.phases import Phases
from harness.runs.console.picture import OUTCOMES, ActiveFault, PartitionLine, Phase, Picture, worst_first


class Stats:
    """Safe to use from many threads. expected: the phases of the run in their order, None where they are not known."""

    def __init__(self, expected: Sequence[str] | None = None, *, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._began_s = clock_s()
        self._phases = Phases(expected)
        self._phase: str | None = None
        self._phase_began_s = self._began_s
        self._phase_limit_s: float | None = None
        self._doing = ""
        self._totals: Counter[str] = Counter()
        self._per_second = PerSecond(self._began_s)
        self._latencies = Latencies()
        self._faults: dict[object, tuple[str, float]] = {}
        self._faults_done = 0
        self._partitions: dict[int, PartitionLine] = {}
        self._last_error = ""
        self._last_error_s = 0.0
        self._jobs: tuple[int, int] | None = None
        self._so_far = ""
        self.coming: Callable[[], str] = lambda: ""
        """What the nemesis or the script does next, for people; asked by the thread that shows."""
        self.on_phase: Callable[[Phase, float], None] = lambda _phase, _took_s: None
        """Told of each phase as it begins, and for how many seconds the one before it lasted; must not block."""

    @property
    def operations(self) -> int:
        """How many client operations have completed."""
        with self._lock:
            return sum(self._totals.values())

    def phase(self, name: str, limit_s: float | None = None) -> None:
        """A phase began, unless it is the one at hand; limit_s: how long it may take, from now on."""
        told: tuple[Phase, float] | None = None
        with self._lock:
            now_s = self._clock_s()
            self._doing, self._phase_limit_s = "", limit_s
            if name != self._phase:
                took_s = now_s - self._phase_began_s
                self._phases.begin(name)
                self._phase, self._phase_began_s = name, now_s
                told = self._phase_now(now_s), took_s
            elif limit_s is not None:
                # What is limited began only now: the phase at hand may last that much longer.
                self._phase_limit_s = now_s - self._phase_began_s + limit_s
        if told is not None:
            self.on_phase(*told)

    def doing(self, text: str, limit_s: float | None = None) -> None:
        """What goes on within the phase; limit_s: how long that may take."""
        with self._lock:
            self._doing = text
            if limit_s is not None:
                self._phase_limit_s = self._clock_s() - self._phase_began_s + limit_s

    def jobs(self, done: int, of: int) -> None:
        """How far the analysis is."""
        with self._lock:
            self._jobs = (done, of)

    def so_far(self, text: str) -> None:
        """The verdict so far, for people; empty: none."""
        with self._lock:
            self._so_far = text

    def on_line(self, line: Mapping[str, object]) -> None:
        """Take in one line of the history (docs/history-format.md): a completion after its invocation."""
        kind = line.get("kind")
        if kind == "client":
            self._on_client(line)
        elif kind == "nemesis":
            with self._lock:
                self._nemesis(line)
        elif line.get("f") == "phase":
            if line.get("phase") != self._phase:
                self.phase(str(line.get("phase")))
        else:
            with self._lock:
                if line.get("f") == "leadership":
                    self._leadership(line)
                elif line.get("error") is not None:
                    self._error(f"{line.get('f')}: {line['error']}")

    def _on_client(self, line: Mapping[str, object]) -> None:
        type_ = line.get("type")
        if type_ != "invoke":
            with self._lock:
                self._client(line, str(type_))
        elif line["f"] == "send":
            at_ns = line.get("time_ns")
            if isinstance(at_ns, int):
                with self._lock:
                    self._latencies.begin(line.get("index"), at_ns)

    def _client(self, line: Mapping[str, object], type_: str) -> None:
        now_s = self._clock_s()
        self._totals[type_] += 1
        self._per_second.add(now_s, type_)
        if line["f"] == "send":
            at_ns = line.get("time_ns")
            if isinstance(at_ns, int):
                self._latencies.end(line.get("invoke"), at_ns, now_s, counts=type_ == "ok")
        if type_ == "ok":
            hw, partition = line.get("hw"), line.get("partition")
            if isinstance(hw, int) and isinstance(partition, int):
                known = self._partitions.setdefault(partition, PartitionLine())
                known.hw = max(known.hw, hw)
                read = line.get("next_position")
                if isinstance(read, int):
                    known.read = max(known.read, read)
        elif line.get("error") is not None:
            self._error(f"{line['f']} at {line.get('node')}: {line['error']}")

    def _error(self, text: str) -> None:
        self._last_error, self._last_error_s = text, self._clock_s()

    def _nemesis(self, line: Mapping[str, object]) -> None:
        targets = line.get("targets")
        names = ",".join(str(t) for t in targets) if isinstance(targets, list) else ""
        if line.get("f") == "start":
            self._faults[line.get("fault_id")] = f"{line.get('fault')} {names}".strip(), self._clock_s()
        elif line.get("f") == "stop" and self._faults.pop(line.get("fault_id"), None) is not None:
            self._faults_done += 1
        if line.get("error") is not None:
            self._error(f"{line.get('fault')}: {line['error']}")

    def _leadership(self, line: Mapping[str, object]) -> None:
        partition, epoch, isr = line.get("partition"), line.get("epoch"), line.get("isr")
        if isinstance(partition, int) and isinstance(epoch, int) and isinstance(isr, list):
            known = self._partitions.setdefault(partition, PartitionLine())
            leader = line.get("leader")
            known.leader = leader if isinstance(leader, str) else None
            known.epoch, known.isr = epoch, tuple(isr)

    def _phase_now(self, now_s: float) -> Phase:
        name, number = (SETUP, 1) if self._phase is None else (self._phase, self._phases.number)
        return Phase(name, number, self._phases.of, self._phase_limit_s, now_s - self._phase_began_s)

    def picture(self) -> Picture:
        """The state now."""
        coming = self.coming()
        with self._lock:
            now_s = self._clock_s()
            samples = self._latencies.samples()
            partitions = {
                index: PartitionLine(p.leader, p.epoch, p.isr, p.hw, p.read) for index, p in self._partitions.items()
            }
            phase, doing, totals, jobs = self._phase_now(now_s), self._doing, Counter(self._totals), self._jobs
            rates = {key: self._per_second.rate(now_s, key) for key in OUTCOMES}
            ok_by_second = self._per_second.series(now_s, "ok")
            faults = [ActiveFault(text, now_s - began_s) for text, began_s in self._faults.values()]
            done, error, error_age_s = self._faults_done, self._last_error, now_s - self._last_error_s
            so_far = self._so_far
        # What takes long is done where it makes no operation wait.
        took_ns = recent(samples, now_s)
        return Picture(
            phase=phase,
            doing=doing,
            elapsed_s=now_s - self._began_s,
            totals=totals,
            rates=rates,
            ok_by_second=ok_by_second,
            p50_ms=percentile(took_ns, 0.5) / 1e6 if took_ns else None,
            p99_ms=percentile(took_ns, 0.99) / 1e6 if took_ns else None,
            faults_done=done,
            faults=faults,
            coming=coming,
            partitions=worst_first(partitions),
            last_error=error,
            last_error_age_s=error_age_s,
            jobs=jobs,
            so_far=so_far,
        )
