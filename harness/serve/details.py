"""What the page of one run says of its checkers, out of results.json.

Pure. Believes nothing of what the file says: a value of another type than it should have counts as missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.serve.summary import verdicts_of

_WORST_FIRST = ("invalid", "unknown", "valid", "not-applicable")


@dataclass(frozen=True, slots=True)
class Checker:
    """One checker's verdict. reasons: sentences; figures: its counts and measures, by name."""

    name: str
    title: str
    verdict: str
    reasons: tuple[str, ...]
    figures: Mapping[str, int | float]


def checkers(results: Mapping[str, object]) -> list[Checker]:
    """Those with a verdict, the worst first."""
    said = results.get("checkers")
    if not isinstance(said, dict):
        return []
    found = [_checker(name, verdict, said[name]) for name, verdict in verdicts_of(results).items()]
    return sorted(found, key=lambda one: (_rank(one.verdict), one.name))


def _checker(name: str, verdict: str, said: Mapping[str, object]) -> Checker:
    title, reasons = said.get("title"), said.get("reasons")
    return Checker(
        name=name,
        title=title if isinstance(title, str) else name,
        verdict=verdict,
        reasons=tuple(one for one in reasons if isinstance(one, str)) if isinstance(reasons, list) else (),
        figures={**numbers(said.get("counts")), **numbers(said.get("measures"))},
    )


def numbers(value: object) -> dict[str, int | float]:
    """Of a JSON object what is a number."""
    if not isinstance(value, dict):
        return {}
    return {
        str(name): number
        for name, number in value.items()
        if isinstance(number, int | float) and not isinstance(number, bool)
    }


def _rank(verdict: str) -> int:
    return _WORST_FIRST.index(verdict) if verdict in _WORST_FIRST else 0
