"""What an earlier benchmark, broken off or out of time, has measured already; so that hours can be done in parts.

Only runs of the same brokers on the same machine with the same settings are gone on with: else a median would be of two
different things.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.process import BenchmarkFailed
from benchmarks.report.summary import Run

SAME = ("machine", "broker sources", "highwater is", "Kafka", "cluster", "settings")
"""What of the environment must be as it was."""

RowName = tuple[str, str]
"""(group, name) of a row."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """Runs by row, and how long they took."""

    runs: Mapping[RowName, Sequence[Run]] = field(default_factory=dict)
    minutes: float = 0.0


def earlier(folder: Path, plan: str, environment: Mapping[str, object], rows: Iterable[RowName]) -> Earlier:
    """What <folder>/<plan>.json holds, nothing where there is no such file. Raises BenchmarkFailed where it is another
    benchmark's: measured in another environment, or with rows that are not asked for now, which would be lost.
    """
    path = folder / f"{plan}.json"
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        was = told["environment"]
        minutes = float(was["minutes"])
        found = {
            (row["group"], row["name"]): tuple(Run(run["system"], run["values"], run["void"]) for run in row["runs"])
            for row in told["rows"]
        }
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
    foreign = found.keys() - set(rows)
    if foreign:
        raise BenchmarkFailed(
            f"--resume: {path} has rows that are not asked for, {': '.join(min(foreign))!r} for one; name another --out"
        )
    return Earlier(found, minutes)
