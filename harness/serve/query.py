"""Which runs of the list are wanted, in which order, and which part of them: the query string of the index.

Pure. Decides what a filter means; a value that makes no sense finds nothing. Must not know where runs are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import urlencode

from harness.serve.summary import Summary

_KEYS: Mapping[str, Callable[[Summary], Any]] = {
    "when": lambda run: run.started_s,
    "name": lambda run: run.name.lower(),
    "seed": lambda run: run.seed,
    "verdict": lambda run: run.state,
    "duration": lambda run: run.seconds,
    "found": lambda run: len(run.found),
}


PAGE = 100
"""Runs that are shown at once."""


@dataclass(frozen=True, slots=True)
class Query:
    """Each as typed; empty: any. name: a part of it; seed: exactly; checker: one that says invalid; q: words anywhere.

    sort: of _KEYS. order: `up`, or `down`. page: a whole number from 1.
    """

    verdict: str = ""
    name: str = ""
    seed: str = ""
    checker: str = ""
    q: str = ""
    sort: str = "when"
    order: str = "down"
    page: str = "1"

    def link(self, **changes: object) -> str:
        """The query string with some values changed, without those that say nothing."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values |= {name: str(value) for name, value in changes.items()}
        return "?" + urlencode({key: value for key, value in values.items() if value != _DEFAULTS[key]})

    def link_sorted(self, by: str) -> str:
        """The same list sorted by another column, or by the same the other way round, from its beginning."""
        down = self.order == "up" if by == self.sort else by == "when"
        return self.link(sort=by, order="down" if down else "up", page=1)


_DEFAULTS = {field.name: field.default for field in fields(Query)}


def parse(values: Mapping[str, str]) -> Query:
    """Of a query string; what it does not know is left out."""
    known = {name: values[name].strip() for name in _DEFAULTS if name in values}
    if known.get("sort") not in _KEYS:
        known.pop("sort", None)
    if known.get("order") not in ("up", "down"):
        known.pop("order", None)
    page = known.pop("page", "")
    if page.isascii() and page.isdigit() and len(page) < 10 and int(page) > 0:
        known["page"] = str(int(page))
    return Query(**known)


def select(runs: Iterable[Summary], query: Query) -> list[Summary]:
    """Those that are wanted, sorted; where the sorted value is not known, last."""
    wanted = sorted((run for run in runs if _matches(run, query)), key=lambda run: (run.folder, run.stamp))
    key = _KEYS[query.sort]
    known = [run for run in wanted if key(run) is not None]
    return sorted(known, key=key, reverse=query.order == "down") + [run for run in wanted if key(run) is None]


@dataclass(frozen=True, slots=True)
class Page:
    """Some runs of those that are wanted. found: how many are; number, last: of this page and of the last, from 1."""

    runs: list[Summary]
    found: int
    number: int
    last: int

    @property
    def first(self) -> int:
        """The number of its first run among those that are wanted, from 1."""
        return (self.number - 1) * PAGE + 1

    @property
    def near(self) -> list[int]:
        """Numbers of pages to go to: the first, the last, and those around this one."""
        around = range(self.number - 2, self.number + 3)
        return sorted({1, self.last, *(number for number in around if 1 <= number <= self.last)})


def page_of(runs: list[Summary], query: Query) -> Page:
    """The part that is asked for; the last one where there are not so many."""
    last = max(1, -(-len(runs) // PAGE))
    number = min(int(query.page), last)
    return Page(runs[(number - 1) * PAGE : number * PAGE], len(runs), number, last)


def _matches(run: Summary, query: Query) -> bool:
    if query.verdict and run.state != query.verdict:
        return False
    if query.name and query.name.lower() not in run.name.lower():
        return False
    if query.seed and str(run.seed) != query.seed:
        return False
    if query.checker and query.checker not in run.found:
        return False
    text = " ".join((run.folder, run.stamp, run.name, run.state, str(run.seed), run.nodes, *run.found, run.sentence))
    return all(word in text.lower() for word in query.q.lower().split())
