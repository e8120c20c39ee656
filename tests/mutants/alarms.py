"""What was measured of false alarms: how runs of the broker as it is were judged, and the tables that say so.

Pure. Decides what is kept of a run and what the tables show; must not know how a run is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

from tests.mutants import lines
from tests.mutants.lines import BROKE_OFF

BEGIN, END = "<!-- measured: make alarms -->", "<!-- /measured alarms -->"
_MOST_REASONS = 5


@dataclass(frozen=True, slots=True)
class Unmutated:
    """One run of the broker as it is. run: the run file's name. text: a digest of the run file's text: a measurement of
    another says nothing of this one.
    """

    run: str
    seed: int
    text: str


@dataclass(frozen=True, slots=True)
class Alarmed:
    """How it was judged. alarms: checkers that said invalid. why: the reasons of an unknown. acknowledged: records.
    faults: kind → how many of it were in effect.
    """

    wanted: Unmutated
    verdict: str
    alarms: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    acknowledged: int = 0
    faults: Mapping[str, int] | None = None


def alarmed(wanted: Unmutated, results: Mapping[str, Any]) -> Alarmed:
    """What a judged run says. results: of results.json."""
    verdict = str(results["verdict"])
    checkers: Mapping[str, Mapping[str, Any]] = results["checkers"]
    return Alarmed(
        wanted,
        verdict,
        tuple(sorted(name for name, one in checkers.items() if one["verdict"] == "invalid")),
        _reasons(results) if verdict == "unknown" else (),
        int(results["coverage"]["figures"].get("acknowledged", 0)),
        dict(sorted(Counter(str(one["fault"]) for one in results["faults"] if one["observed"]).items())),
    )


def _reasons(results: Mapping[str, Any]) -> tuple[str, ...]:
    of_checkers = [
        f"{name}: {reason}"
        for name, one in sorted(results["checkers"].items())
        if one["verdict"] == "unknown"
        for reason in one["reasons"]
    ]
    return tuple(dict.fromkeys([*results.get("reasons", ()), *results["coverage"]["missing"], *of_checkers]))


def from_lines(text: str) -> list[Alarmed]:
    """As `lines.from_lines`."""
    return lines.from_lines(text, _measurement)


def _measurement(values: dict[str, Any]) -> Alarmed:
    wanted = Unmutated(**values.pop("wanted"))
    return Alarmed(wanted, **(values | {name: tuple(values[name]) for name in ("alarms", "why")}))


def tables(files: Mapping[str, str], done: Sequence[Alarmed]) -> str:
    """Markdown: the sum, a row for each run file, and a line for each run that is not valid.

    files: run file's name → digest of its text. Measurements of other files or texts are left out.
    """
    current = [one for one in done if files.get(one.wanted.run) == one.wanted.text]
    rows = [
        _sum(current),
        "",
        "| run file | runs | valid | unknown | invalid | acknowledged records | faults in effect |",
        "|---|---|---|---|---|---|---|",
    ]
    rows += [_row(run, [one for one in current if one.wanted.run == run]) for run in sorted(files)]
    odd = sorted((one for one in current if one.verdict != "valid"), key=lambda one: (one.wanted.run, one.wanted.seed))
    return "\n".join([*rows, *(["", *map(_told, odd)] if odd else [])]) + "\n"


def _sum(runs: Sequence[Alarmed]) -> str:
    verdicts = Counter(one.verdict for one in runs)
    told = ", ".join(f"{verdicts[name]} {name}" for name in ("valid", "unknown", "invalid"))
    broken = f", {verdicts[BROKE_OFF]} {BROKE_OFF}" if verdicts[BROKE_OFF] else ""
    kinds = {kind for one in runs for kind in one.faults or ()}
    faults = sum(count for one in runs for count in (one.faults or {}).values())
    records = sum(one.acknowledged for one in runs)
    return _wrapped(
        f"{len(runs)} runs: {told}{broken}; {records:,} acknowledged records, {faults:,} faults in effect of "
        f"{len(kinds)} kinds."
    )


def _row(run: str, runs: Sequence[Alarmed]) -> str:
    verdicts = Counter(one.verdict for one in runs)
    faults: Counter[str] = Counter()
    for one in runs:
        faults.update(one.faults or {})
    told = ", ".join(f"{kind} {count}" for kind, count in sorted(faults.items())) or "–"
    figures = [verdicts[name] for name in ("valid", "unknown", "invalid")]
    records = f"{sum(one.acknowledged for one in runs):,}"
    return f"| `{run}` | {len(runs)} | {' | '.join(map(str, figures))} | {records} | {told} |"


def _told(one: Alarmed) -> str:
    said = [*(f"**{name}**" for name in one.alarms), *one.why[:_MOST_REASONS]]
    more = len(one.why) - _MOST_REASONS
    if more > 0:
        said.append(f"{more} more reasons")
    return _wrapped(
        f"- `{one.wanted.run}`, seed {one.wanted.seed}: {one.verdict}{': ' if said else ''}{'; '.join(said)}", "  "
    )


def _wrapped(text: str, indent: str = "") -> str:
    return fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
