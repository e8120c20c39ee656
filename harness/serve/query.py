"""Which runs of the list are wanted, and in which order: the query string of the index.

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


@dataclass(frozen=True, slots=True)
class Query:
    """Each as typed; empty: any. name: a part of it; seed: exactly; checker: one that says invalid; q: words anywhere.

    sort: of _KEYS. order: `up`, or `down`.
    """

    verdict: str = ""
    name: str = ""
    seed: str = ""
    checker: str = ""
    q: str = ""
    sort: str = "when"
    order: str = "down"

    def link(self, **changes: str) -> str:
        """The query string with some values changed, without those that say nothing."""
        values = {field.name: getattr(self, field.name) for field in fields(self)} | changes
        return "?" + urlencode({key: value for key, value in values.items() if value != _DEFAULTS[key]})

    def link_sorted(self, by: str) -> str:
        """The same list sorted by another column, or by the same the other way round."""
        down = self.order == "up" if by == self.sort else by == "when"
        return self.link(sort=by, order="down" if down else "up")


_DEFAULTS = {field.name: field.default for field in fields(Query)}


def parse(values: Mapping[str, str]) -> Query:
    """Of a query string; what it does not know is left out."""
    known = {name: values[name].strip() for name in _DEFAULTS if name in values}
    if known.get("sort") not in _KEYS:
        known.pop("sort", None)
    if known.get("order") not in ("up", "down"):
        known.pop("order", None)
    return Query(**known)


def select(runs: Iterable[Summary], query: Query) -> list[Summary]:
    """Those that are wanted, sorted; where the sorted value is not known, last."""
    wanted = sorted((run for run in runs if _matches(run, query)), key=lambda run: (run.folder, run.stamp))
    key = _KEYS[query.sort]
    known = [run for run in wanted if key(run) is not None]
    return sorted(known, key=key, reverse=query.order == "down") + [run for run in wanted if key(run) is None]


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
