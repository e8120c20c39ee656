"""From results.json to what the template prints: counterexamples first, checkers by family, the command to rerun it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

_ORDER = {"invalid": 0, "unknown": 1, "valid": 2, "not-applicable": 3}
_FAMILIES = (
    ("black-box", "What clients saw"),
    ("white-box", "What the nodes held"),
    ("coverage", "Whether the run proved enough"),
)


@dataclass(frozen=True, slots=True)
class Witness:
    """One counterexample: its sentence, its span in seconds, the faults active then, its rows."""

    checker: str
    title: str
    summary: str
    from_s: float | None
    to_s: float | None
    faults: tuple[str, ...]
    operations: tuple[dict[str, Any], ...]
    evidence: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One checker as a line of the table."""

    name: str
    title: str
    verdict: str
    reasons: tuple[str, ...]
    figures: tuple[tuple[str, str], ...]
    allowed: str | None


@dataclass(frozen=True, slots=True)
class Page:
    """Everything the template iterates over."""

    witnesses: tuple[Witness, ...]
    families: tuple[tuple[str, tuple[Row, ...]], ...]
    faults: tuple[dict[str, Any], ...]
    command: str
    duration_s: float


def page(run: dict[str, Any], results: dict[str, Any]) -> Page:
    """run and results as docs/history-format.md and docs/results-format.md describe them."""
    faults = {fault["fault_id"]: fault for fault in results.get("faults", [])}
    checkers: dict[str, dict[str, Any]] = results.get("checkers", {})
    ordered = sorted(checkers.items(), key=lambda item: (_ORDER.get(item[1]["verdict"], 9), item[0]))
    witnesses = tuple(
        _witness(name, checker, witness, faults)
        for name, checker in ordered
        for witness in checker.get("witnesses", [])
    )
    families = tuple(
        (heading, tuple(_row(name, checker) for name, checker in ordered if checker.get("family") == family))
        for family, heading in _FAMILIES
    )
    return Page(
        witnesses=witnesses,
        families=tuple((heading, rows) for heading, rows in families if rows),
        faults=tuple(_fault(fault) for fault in results.get("faults", [])),
        command=_command(run),
        duration_s=max((f.get("stop_ns") or f["start_ns"] for f in results.get("faults", [])), default=0) / 1e9,
    )


def seconds(nanoseconds: float | None) -> str:
    """Run time as seconds with three decimals; an en dash for the unknown."""
    return "–" if nanoseconds is None else f"{nanoseconds / 1e9:,.3f} s"


def number(value: object) -> str:
    """Figures with thousands separators; everything else as it is."""
    if isinstance(value, bool) or value is None:
        return str(value).lower() if value is not None else "–"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    if isinstance(value, list | tuple):
        return ", ".join(number(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{key}: {number(item)}" for key, item in value.items())
    return str(value)


def _witness(name: str, checker: dict[str, Any], witness: dict[str, Any], faults: dict[int, dict[str, Any]]) -> Witness:
    return Witness(
        checker=name,
        title=checker.get("title", name),
        summary=witness["summary"],
        from_s=_s(witness.get("from_ns")),
        to_s=_s(witness.get("to_ns")),
        faults=tuple(_fault_name(faults[i]) if i in faults else f"fault {i}" for i in witness.get("faults", [])),
        operations=tuple(witness.get("operations", [])),
        evidence=tuple(witness.get("evidence", [])),
    )


def _row(name: str, checker: dict[str, Any]) -> Row:
    figures = {**checker.get("counts", {}), **checker.get("measures", {})}
    return Row(
        name=name,
        title=checker.get("title", name),
        verdict=checker["verdict"],
        reasons=tuple(checker.get("reasons", [])),
        figures=tuple((key.replace("_", " "), number(value)) for key, value in figures.items()),
        allowed=checker.get("allowed"),
    )


def _fault(fault: dict[str, Any]) -> dict[str, Any]:
    times = {"start_s": _s(fault["start_ns"]), "stop_s": _s(fault.get("stop_ns"))}
    return {**fault, **times, "name": _fault_name(fault), "met_text": _met(fault)}


_MET = {"started": "started with it", "opened": "opened that log", "cut": "found that log shorter"}


def _met(fault: dict[str, Any]) -> str:
    """Whether a file fault's broker met the damage; empty for other faults."""
    if "met" not in fault:
        return ""
    met = fault["met"]
    if met is None:
        return "; nothing shows that the broker met it"
    return f"; the broker {_MET[met['how']]} after {_s(met['at_ns'] - fault['start_ns'])} s"


def _fault_name(fault: dict[str, Any]) -> str:
    return f"{fault['fault']} {', '.join(fault.get('targets', []))}".strip()


def _s(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e9


def _command(run: dict[str, Any]) -> str:
    """The command that runs this again: the run file that the store kept, with its seed."""
    nodes = run.get("node_kind")
    parts = ["highwater", "test", str(run.get("run_file", "run.toml")), "--seed", str(run.get("seed"))]
    return shlex.join(parts + (["--nodes", str(nodes)] if nodes else []))
