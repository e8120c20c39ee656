"""What was measured of detection: which runs found a planted bug, by what, how soon, and the table that says so.

Pure. Decides what counts as found, which measurements still hold, and what the table shows; must not know how a run is
made. A bug is found by a run in which one of the checkers that its file names says invalid. The time to find is that of
the earliest event that completes a finding's proof, in s from the run's start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_high
from typing import Any, Literal

from tests.mutants import lines
from tests.mutants.lines import BROKE_OFF

By = Literal["script", "mix"]
BEGIN, END = "<!-- measured: make detection -->", "<!-- /measured -->"


@dataclass(frozen=True, slots=True)
class Wanted:
    """One run to be made. by: the mutant's own run file, or a random mix. run: the run file's name. text: a digest of
    the mutant's and the run file's text: a measurement of others says nothing of these.
    """

    mutant: str
    by: By
    run: str
    seed: int
    text: str


@dataclass(frozen=True, slots=True)
class Measured:
    """One run that was made. found: of the checkers that the mutant names; others: the rest that said invalid.
    first_s: None where nothing was found, or no finding says when.
    """

    wanted: Wanted
    verdict: str
    found: tuple[str, ...]
    others: tuple[str, ...]
    first_s: float | None


def measured(wanted: Wanted, finds: Collection[str], results: Mapping[str, Any]) -> Measured:
    """What a judged run says. results: of results.json."""
    checkers: Mapping[str, Mapping[str, Any]] = results["checkers"]
    invalid = {name for name, one in checkers.items() if one["verdict"] == "invalid"}
    found = tuple(sorted(invalid & set(finds)))
    return Measured(
        wanted,
        str(results["verdict"]),
        found,
        tuple(sorted(invalid - set(finds))),
        first_s([witness for name in found for witness in checkers[name]["witnesses"]]),
    )


def first_s(witnesses: Iterable[Mapping[str, Any]]) -> float | None:
    """When the earliest of these findings was complete."""
    invalid = [one for one in witnesses if one["kind"] == "invalid"]
    times = [
        end for one in invalid if (end := one["to_ns"] if one["to_ns"] is not None else one["from_ns"]) is not None
    ]
    return round(min(times) / 1e9, 1) if times else None


def from_lines(text: str) -> list[Measured]:
    """As `lines.from_lines`."""
    return lines.from_lines(text, _measurement)


def _measurement(values: dict[str, Any]) -> Measured:
    wanted = Wanted(**values.pop("wanted"))
    return Measured(wanted, **(values | {name: tuple(values[name]) for name in ("found", "others")}))


def table(wanted: Sequence[Wanted], done: Iterable[Measured]) -> str:
    """Markdown: a row per mutant, of the measurements that `wanted` names."""
    of: dict[tuple[str, By], list[Measured]] = {}
    by_wanted = {one.wanted: one for one in done}
    for one in wanted:
        if one in by_wanted:
            of.setdefault((one.mutant, one.by), []).append(by_wanted[one])
    mixes = {one.mutant: one.run for one in wanted if one.by == "mix"}
    rows = [
        "| planted bug | script: found | median, worst s | by | random mix | found | median, worst s | by |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for mutant in sorted({one.mutant for one in wanted}):
        script, mix = of.get((mutant, "script"), []), of.get((mutant, "mix"), [])
        name = f"`{mixes[mutant]}`" if mutant in mixes else "none comes near"
        rows.append(f"| `{mutant}` | {_cells(script)} | {name} | {_cells(mix)} |")
    return "\n".join(rows) + "\n"


def _cells(runs: Sequence[Measured]) -> str:
    if not runs:
        return "– | | "
    found = [one for one in runs if one.found]
    times = sorted(one.first_s for one in found if one.first_s is not None)
    took = f"{median_high(times):.0f}, {times[-1]:.0f}" if times else ""
    counts = Counter(name for one in runs for name in one.found)
    by = ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    broken = sum(one.verdict == BROKE_OFF for one in runs)
    ended = f", {broken} {BROKE_OFF}" if broken else ""
    return f"{len(found)} of {len(runs)}{ended} | {took} | {by}"


def with_table(page: str, rows: str, marks: tuple[str, str] = (BEGIN, END)) -> str:
    """The page with these rows between its marks. Raises ValueError for one without them."""
    before, begin, rest = page.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not begin or not end:
        raise ValueError(f"the page has no {marks[0]} … {marks[1]}")
    return f"{before}{begin}\n\n{rows}\n{end}{after}"
