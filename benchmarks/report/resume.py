"""What an earlier benchmark, broken off or out of time, has measured already; so that hours can be done in parts.

Only runs of the same brokers, measured by the same benchmark on the same machine with the same settings, are gone on
with: else a median would be of two different things.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.process import BenchmarkFailed
from benchmarks.report.summary import Run

SAME = (
    "machine",
    "broker sources",
    "benchmark sources",
    "highwater is",
    "Kafka",
    "ZooKeeper",
    "cluster",
    "settings",
    "measured with",
)
"""What of the environment must be as it was."""

RowName = tuple[str, str]
"""(group, name) of a row."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """Runs by row, how long they took, and in how many parts."""

    runs: Mapping[RowName, Sequence[Run]] = field(default_factory=dict)
    minutes: float = 0.0
    parts: int = 0


def earlier(folder: Path, name: str, environment: Mapping[str, object], rows: Iterable[RowName]) -> Earlier:
    """What <folder>/<name>.json holds, nothing where there is no such file. Raises BenchmarkFailed where it is another
    benchmark's: measured in another environment, or with rows that are not asked for now, which would be lost.
    """
    path = folder / f"{name}.json"
    try:
        written = json.loads(path.read_text(encoding="utf-8"))
        was = written["environment"]
        minutes = float(was["minutes"])
        found = {(row["group"], row["name"]): tuple(Run(**run) for run in row["runs"]) for row in written["rows"]}
    except FileNotFoundError:
        return Earlier()
    except (ValueError, KeyError, TypeError) as error:
        raise BenchmarkFailed(f"--resume: {path} is no result of a benchmark ({error!r})") from None
    for key in SAME:
        if was.get(key) != environment[key]:
            raise BenchmarkFailed(
                f"--resume: {path} is of another {key}: {was.get(key)!r}, now {environment[key]!r}; "
                "begin without --resume, or in another --out"
            )
    foreign = {key for key, runs in found.items() if runs} - set(rows)
    if foreign:
        raise BenchmarkFailed(
            f"--resume: {path} has rows that are not asked for, {': '.join(min(foreign))!r} for one; name another --out"
        )
    parts = max((run.part for runs in found.values() for run in runs), default=0)
    return Earlier(found, minutes, parts)
