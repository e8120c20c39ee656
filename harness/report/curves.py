"""From rows of series.json to curves: steps with gaps where nothing happened, lags at the ends of slices, strips.

Decides how samples become points and stretches. Must not know titles, colours or how anything is drawn. Pure.

A point is [seconds since the run's start, value]; a value of None ends a stretch, and nothing is drawn until the next
point.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

SLICES = 600
"""series.json has of each broker's HW and LEO the last value of each of this many equal slices of the run."""

Points = list[list[float | None]]


@dataclass(frozen=True, slots=True)
class Stretch:
    """from_s, to_s: since the run's start. state: what held then. text: the same in words."""

    from_s: float
    to_s: float
    state: str
    text: str


def per_second(rows: Iterable[tuple[int, float]]) -> Points:
    """rows: (second, value of that whole second). A second that has no row is a gap."""
    points: Points = []
    ordered = sorted(rows)
    for (second, value), following in zip(ordered, [*ordered[1:], None], strict=True):
        points.append([second, _short(value)])
        if following is None or following[0] > second + 1:
            points.append([second + 1, None])
    return points


def counted(rows: Iterable[tuple[int, int]], end_s: float) -> Points:
    """rows: (second, count), several of one second add up; a second without a row counts zero. Changes alone."""
    totals: dict[int, int] = {}
    for second, count in rows:
        totals[second] = totals.get(second, 0) + count
    points: Points = []
    last: int | None = None
    for second in range(int(end_s) + 1):
        total = totals.get(second, 0)
        if total != last:
            points.append([second, total])
        last = total
    return points


def unbroken(samples: Iterable[Sequence[float]], longest_gap_s: float) -> Points:
    """samples: [seconds, value], in order. A pause of more than longest_gap_s is a gap."""
    points: Points = []
    last_s: float | None = None
    for at_s, value in samples:
        if last_s is not None and at_s - last_s > longest_gap_s:
            points.append([_time(last_s), None])
        points.append([_time(at_s), _short(value)])
        last_s = at_s
    return points


class Timeline:
    """What one partition's brokers held, at the end of each slice of the run.

    data: a partition of series.json: `hw` and `leo` [[t_s, broker, offset]], `leader` [[t_s, broker, epoch]], `isr`
    [[t_s, [broker]]], `elected` [[t_s, broker, epoch, controller, reason]].
    """

    def __init__(self, data: Mapping[str, Any], duration_ns: int) -> None:
        self.slice_s = max(1, duration_ns // SLICES) / 1e9
        self.end_s = duration_ns / 1e9
        self.leaders = sorted((float(t_s), int(b), int(epoch)) for t_s, b, epoch in data.get("leader", ()))
        self.isrs = sorted((float(t_s), tuple(map(int, isr))) for t_s, isr in data.get("isr", ()))
        self.elected = sorted(
            (float(t_s), int(b), int(e), int(by), str(r)) for t_s, b, e, by, r in data.get("elected", ())
        )
        self._hw = self._by_slice(data.get("hw", ()))
        self._leo = self._by_slice(data.get("leo", ()))
        seen = {*self._hw, *self._leo, *(b for _, b, _ in self.leaders)}
        self.brokers = sorted(seen.union(*(isr for _, isr in self.isrs)))

    def _by_slice(self, samples: Iterable[Sequence[float]]) -> dict[int, dict[int, int]]:
        """Broker → slice → its last value there."""
        found: dict[int, dict[int, int]] = {}
        for t_s, broker, offset in sorted(samples, key=lambda sample: sample[0]):
            found.setdefault(int(broker), {})[int(t_s / self.slice_s)] = int(offset)
        return found

    def leader_at(self, t_s: float) -> tuple[int, int] | None:
        """(broker, leader epoch) of who had last become leader then."""
        position = bisect_right(self.leaders, (t_s, 1 << 62, 0)) - 1
        return self.leaders[position][1:] if position >= 0 else None

    def watermark(self) -> dict[int, Points]:
        """Broker → its HW while it led."""
        lines: dict[int, Points] = {}
        leading: int | None = None
        for at_s, hw, _ in self._states():
            leader = self.leader_at(at_s)
            broker = leader[0] if leader is not None else None
            if leading is not None and broker != leading:
                lines[leading].append([_time(at_s), None])
            leading = broker if broker in hw else None
            if leading is not None:
                _on_change(lines.setdefault(leading, []), at_s, hw[leading])
        return lines

    def lags(self) -> tuple[Points, dict[int, Points]]:
        """(the leader's LEO − HW, other broker → the leader's LEO − its own), in records."""
        uncommitted: Points = []
        behind: dict[int, Points] = {}
        for at_s, hw, leo in self._states():
            leader = self.leader_at(at_s)
            if leader is None or leader[0] not in leo:
                continue
            end = leo[leader[0]]
            if leader[0] in hw:
                _on_change(uncommitted, at_s, end - hw[leader[0]])
            for broker in leo:
                if broker != leader[0]:
                    _on_change(behind.setdefault(broker, []), at_s, end - leo[broker])
                elif behind.get(broker):
                    _on_change(behind[broker], at_s, None)
        return uncommitted, behind

    def _states(self) -> Iterable[tuple[float, dict[int, int], dict[int, int]]]:
        """(end of a slice in which something changed, HW by broker, LEO by broker), in order."""
        slices = {nth for lines in (self._hw, self._leo) for line in lines.values() for nth in line}
        slices |= {int(t_s / self.slice_s) for t_s, _, _ in self.leaders}
        hw: dict[int, int] = {}
        leo: dict[int, int] = {}
        for nth in sorted(slices):
            for now, lines in ((hw, self._hw), (leo, self._leo)):
                now.update({broker: line[nth] for broker, line in lines.items() if nth in line})
            yield (nth + 1) * self.slice_s, hw, leo

    def leaderships(self, names: Mapping[int, str]) -> list[Stretch]:
        """Who led: the state is the broker's number."""
        changes = [(t_s, str(b), f"{names.get(b, b)} led, epoch {epoch}") for t_s, b, epoch in self.leaders]
        return _stretches(changes, self.end_s)

    def roles(self, broker: int, name: str) -> list[Stretch]:
        """When it led (`leader`) and when it was an in-sync replica (`isr`)."""
        changes: list[tuple[float, str, str]] = []
        for t_s in sorted({t_s for t_s, *_ in self.leaders} | {t_s for t_s, _ in self.isrs}):
            leader = self.leader_at(t_s)
            position = bisect_right(self.isrs, (t_s, (1 << 62,))) - 1
            if leader is not None and leader[0] == broker:
                changes.append((t_s, "leader", f"{name} led, epoch {leader[1]}"))
            elif position >= 0 and broker in self.isrs[position][1]:
                changes.append((t_s, "isr", f"{name} in sync"))
            else:
                changes.append((t_s, "", ""))
        return [stretch for stretch in _stretches(changes, self.end_s) if stretch.state]


def _stretches(changes: Sequence[tuple[float, str, str]], end_s: float) -> list[Stretch]:
    """changes: (from, state, text), in order; each holds until the next, or the end."""
    merged: list[tuple[float, str, str]] = []
    for change in changes:
        if not merged or merged[-1][1:] != change[1:]:
            merged.append(change)
    ends = [*merged, (max(end_s, merged[-1][0]) if merged else end_s, "", "")]
    return [Stretch(_time(a[0]), _time(b[0]), a[1], a[2]) for a, b in pairwise(ends)]


def _on_change(points: Points, at_s: float, value: float | None) -> None:
    if not points or points[-1][1] != value:
        points.append([_time(at_s), value])


def _time(t_s: float) -> float:
    return round(t_s, 3)


def _short(value: float) -> float:
    """Four digits are more than a curve shows."""
    return float(f"{value:.4g}")
