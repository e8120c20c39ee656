"""From run.json and results.json to what the template prints: headline, facts, checkers by family.

Decides order and wording of the page beside charts and stories. Must not know HTML. Pure.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.report.words import date, duration, figure, listed, moment, number, quantity

_ORDER = {"invalid": 0, "unknown": 1, "valid": 2, "not-applicable": 3}
_FAMILIES = (
    ("black-box", "What clients saw"),
    ("white-box", "What the nodes held"),
    ("coverage", "Whether the run proved enough"),
)
_KINDS = {"local": "network namespaces of one machine", "docker": "Docker containers", "ssh": "machines reached by ssh"}

Figures = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One checker as a line of the table."""

    name: str
    title: str
    verdict: str
    reasons: tuple[str, ...]
    figures: Figures
    allowed: str | None


@dataclass(frozen=True, slots=True)
class Page:
    """Everything the template iterates over. headline, remarks: the verdict's sentence, in parts.

    Figures: words and value. command: runs it again.
    """

    headline: str
    remarks: tuple[str, ...]
    facts: Figures
    families: tuple[tuple[str, tuple[Row, ...]], ...]
    faults: tuple[dict[str, Any], ...]
    availability: Figures
    coverage: Figures
    lowered: Figures
    details: Figures
    command: str


def page(run: dict[str, Any], results: dict[str, Any], duration_ns: int = 0) -> Page:
    """run and results as docs/history-format.md and docs/results-format.md have them; duration_ns: of the series."""
    checkers: dict[str, dict[str, Any]] = results.get("checkers", {})
    ordered = sorted(checkers.items(), key=lambda item: (_ORDER.get(item[1]["verdict"], 9), item[0]))
    families = tuple(
        (heading, tuple(_row(name, checker) for name, checker in ordered if checker.get("family") == family))
        for family, heading in _FAMILIES
    )
    coverage = results.get("coverage", {})
    lowered = _figures(coverage.get("lowered", {}))
    headline, *remarks = parts_of(str(results.get("sentence", "")))
    less = "Required was less than usual: " + "; ".join(f"{name}, {value}" for name, value in lowered) + "."
    return Page(
        headline=headline,
        remarks=tuple(less if remark.startswith("Required less:") and lowered else remark for remark in remarks),
        facts=_facts(run, duration_ns),
        families=tuple((heading, rows) for heading, rows in families if rows),
        faults=tuple(_fault(fault) for fault in results.get("faults", [])),
        availability=_measures(checkers, ("availability", "staleness")),
        coverage=_figures(coverage.get("figures", {})),
        lowered=lowered,
        details=_details(run, results),
        command=_command(run),
    )


def parts_of(sentence: str) -> list[str]:
    """The verdict's sentence at its semicolons, each part as a sentence; brackets hold together."""
    parts = re.split(r"; (?![^(]*\))", sentence) if sentence else ["There is no verdict."]
    return [part[0].upper() + part[1:] + ("" if part.endswith(".") else ".") for part in parts if part]


def _facts(run: dict[str, Any], duration_ns: int) -> Figures:
    """What tells this run from others; what run.json does not say is left out."""
    system, nodes = run.get("system", {}), run.get("nodes", [])
    roles = Counter(str(node.get("role", "broker")) for node in nodes)
    kind = str(run.get("node_kind") or "")
    counted = listed(f"{count} {_plural(role, count)}" for role, count in sorted(roles.items()))
    versions = run.get("versions", {})
    code = str(run.get("code") or "")
    compiled = ", compiled" if system.get("compiled") else ""
    facts = {
        "Run": str(run.get("name")) + ("" if "imported" in run else f", seed {run.get('seed')}"),
        "Date": date(run.get("started_wall_ns")),
        "Duration": duration(duration_ns / 1e9) if duration_ns else None,
        "System": f"{system.get('kind')} {run.get('highwater_version', '')}{compiled}".strip(),
        "Code": code or None,
        "Nodes": f"{kind}: {counted}" if kind else counted,
        "Host": ", ".join(f"{name} {versions[name]}" for name in ("kernel", "python", "java") if name in versions),
    }
    return tuple((name, value) for name, value in facts.items() if value)


def _plural(role: str, count: int) -> str:
    name = {"zookeeper": "ZooKeeper"}.get(role, role)
    return name if count == 1 else f"{name}s"


def _details(run: dict[str, Any], results: dict[str, Any]) -> Figures:
    """What was run, whole."""
    analysis, system = results.get("analysis", {}), run.get("system", {})
    kind = str(run.get("node_kind") or "")
    nodes = ", ".join(f"{n['name']} ({n.get('role', 'broker')}, {n.get('address', '–')})" for n in run.get("nodes", []))
    took = duration(float(analysis.get("seconds", 0)))
    rows = {
        "Given": " ".join(map(str, run.get("command", []))),
        "Seed": None if "imported" in run else str(run.get("seed")),
        "Versions": number({"highwater": run.get("highwater_version"), **run.get("versions", {})}),
        "Code digest": run.get("code"),
        "Nodes": f"{_KINDS.get(kind, kind)}: {nodes}" if nodes else None,
        "Topic": number(run.get("topic")),
        "Workload": number(run.get("workload")),
        "Broker settings": number(system.get("settings", {})),
        "Analysis": f"{number(analysis.get('operations'))} operations in {took}, by Spark {analysis.get('spark')}",
        "Aborted": run.get("aborted"),
    }
    return tuple((name, str(value)) for name, value in rows.items() if value)


def _figures(values: Mapping[str, Any], checker: str = "") -> Figures:
    return tuple((figure(name, checker), quantity(name, value)) for name, value in sorted(values.items()))


def _measures(checkers: Mapping[str, Mapping[str, Any]], names: tuple[str, ...]) -> Figures:
    """Counts and measures of what is measured and never fails; a count of violations says nothing there."""
    found: list[tuple[str, str]] = []
    for name in names:
        checker = checkers.get(name, {})
        values = {**checker.get("counts", {}), **checker.get("measures", {})}
        values.pop("found", None)
        found += _figures(values, name)
    return tuple(found)


def _row(name: str, checker: dict[str, Any]) -> Row:
    return Row(
        name=name,
        title=checker.get("title", name),
        verdict=checker["verdict"],
        reasons=tuple(checker.get("reasons", [])),
        figures=_figures({**checker.get("counts", {}), **checker.get("measures", {})}, name),
        allowed=checker.get("allowed"),
    )


def _fault(fault: dict[str, Any]) -> dict[str, Any]:
    start_s, stop_s = _s(fault["start_ns"]), _s(fault.get("stop_ns"))
    lasted = duration(stop_s - start_s) if start_s is not None and stop_s is not None else "until the end"
    times = {"from": moment(start_s), "lasted": lasted, "start_s": start_s, "stop_s": stop_s}
    return {**fault, **times, "name": fault_name(fault), "met_text": _met(fault)}


_MET = {"started": "started with it", "opened": "opened that log", "cut": "found that log shorter"}


def _met(fault: dict[str, Any]) -> str:
    """Whether a file fault's broker met the damage; empty for other faults."""
    if "met" not in fault:
        return ""
    met = fault["met"]
    if met is None:
        return "; nothing shows that the broker met it"
    return f"; the broker {_MET[met['how']]} after {duration((met['at_ns'] - fault['start_ns']) / 1e9)}"


def fault_name(fault: Mapping[str, Any]) -> str:
    """Kind and targets: `kill n1`."""
    return f"{fault['fault']} {', '.join(fault.get('targets', []))}".strip()


def _s(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e9


def _command(run: dict[str, Any]) -> str:
    """The command that runs this again: the run file that the store kept, with its seed. An imported history is read
    again.
    """
    if isinstance(imported := run.get("imported"), dict):
        return shlex.join(["highwater", "import", str(imported.get("file")), "--name", str(run.get("name"))])
    nodes = run.get("node_kind")
    parts = ["highwater", "test", str(run.get("run_file", "run.toml")), "--seed", str(run.get("seed"))]
    return shlex.join(parts + (["--nodes", str(nodes)] if nodes else []))
