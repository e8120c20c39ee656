"""Builds the golden histories: `python -m tests.golden.make` writes `<anomaly>/<case>/`.

Per anomaly: `ok` is close to it and legal, `bad` shows it, `unknown` lacks what a verdict needs; `bad-…` shows it in
another way. `black.py` and `white.py` say which is which, and the modules named after them how each comes about. The
stored files are what the tests read; a test compares them with what this module builds, so that neither changes unseen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from tests.golden.admin import ADMIN, MORE_ADMIN
from tests.golden.applications import APPLICATIONS, MORE_APPLICATIONS
from tests.golden.black import BLACK_BOX, MORE_BLACK_BOX
from tests.golden.compaction import COMPACTION, MORE_COMPACTION
from tests.golden.cycles import CYCLES, MORE_CYCLES, PARTITIONS, told
from tests.golden.groups import GROUPS, MORE_GROUPS
from tests.golden.topics import MORE_TOPICS, TOPICS
from tests.golden.transactions import MORE_TRANSACTIONS, TRANSACTIONS
from tests.golden.transactions import life as transactional_life
from tests.golden.white import LAST_STANDING, MORE_STARTS, MORE_WHITE_BOX, OF_PRODUCERS, STARTS, WHITE_BOX
from tests.golden.white_parts import last_standing_life, plain_life
from tests.support.histories import Story
from tests.support.judging import TABLES, Case, case_of

ROOT = Path(__file__).parent
CASES = ("ok", "bad", "unknown")
PRODUCERS_FROM, STARTS_FROM = 1000, 2000
"""Brokers of these are counted apart, so that the others keep their numbers."""


def names() -> list[tuple[str, str]]:
    """(anomaly, case name) of every golden history."""
    every = (
        *BLACK_BOX,
        *GROUPS,
        *WHITE_BOX,
        *STARTS,
        *TRANSACTIONS,
        *CYCLES,
        *APPLICATIONS,
        *COMPACTION,
        *ADMIN,
        *TOPICS,
    )
    main = [(anomaly, case) for anomaly in every for case in CASES]
    return [
        *main,
        *MORE_BLACK_BOX,
        *MORE_GROUPS,
        *MORE_WHITE_BOX,
        *MORE_STARTS,
        *MORE_TRANSACTIONS,
        *MORE_CYCLES,
        *MORE_COMPACTION,
        *MORE_APPLICATIONS,
        *MORE_ADMIN,
        *MORE_TOPICS,
    ]


def build() -> Iterator[tuple[str, str, Case]]:
    """(anomaly, case name, case), all in topics `<anomaly>-<case>` and on brokers of their own."""
    for anomaly, tellers in {**BLACK_BOX, **GROUPS, **APPLICATIONS, **COMPACTION, **ADMIN, **TOPICS}.items():
        for name, tell in zip(CASES, tellers, strict=True):
            story = Story(f"{anomaly}-{name}")
            tell(story)
            yield anomaly, name, Case(story.lines)
    plain, of_producers = count(1), count(PRODUCERS_FROM)
    for anomaly, changes in WHITE_BOX.items():
        for name, change in zip(CASES, changes, strict=True):
            number = next(of_producers if anomaly in OF_PRODUCERS else plain)
            case = case_of(plain_life(f"{anomaly}-{name}", 10 * number))
            change(case)
            yield anomaly, name, case
    more = {**MORE_BLACK_BOX, **MORE_GROUPS, **MORE_COMPACTION, **MORE_APPLICATIONS, **MORE_ADMIN, **MORE_TOPICS}
    for (anomaly, name), tell in more.items():
        story = Story(f"{anomaly}-{name}")
        tell(story)
        yield anomaly, name, Case(story.lines)
    for (anomaly, name), change in MORE_WHITE_BOX.items():
        life = last_standing_life if change in LAST_STANDING else plain_life
        number = next(of_producers if anomaly in OF_PRODUCERS else plain)
        case = case_of(life(f"{anomaly}-{name}", 10 * number))
        change(case)
        yield anomaly, name, case
    of_starts = [
        ((anomaly, name), change)
        for anomaly, changes in STARTS.items()
        for name, change in zip(CASES, changes, strict=True)
    ]
    for number, ((anomaly, name), change) in enumerate([*of_starts, *MORE_STARTS.items()], STARTS_FROM):
        case = case_of(plain_life(f"{anomaly}-{name}", 10 * number))
        change(case)
        yield anomaly, name, case
    each = [
        ((anomaly, name), change)
        for anomaly, changes in TRANSACTIONS.items()
        for name, change in zip(CASES, changes, strict=True)
    ]
    for (anomaly, name), damage in [*each, *MORE_TRANSACTIONS.items()]:
        case = transactional_life(f"{anomaly}-{name}")
        damage(case.history)
        yield anomaly, name, case
    of_cycles = [
        ((anomaly, name), of_cycle)
        for anomaly, tellers in CYCLES.items()
        for name, of_cycle in zip(CASES, tellers, strict=True)
    ]
    for (anomaly, name), of_cycle in [*of_cycles, *MORE_CYCLES.items()]:
        yield anomaly, name, told(f"{anomaly}-{name}", of_cycle)


def known(row: dict[str, Any]) -> dict[str, Any]:
    """Without nulls: a field that is missing is null to the readers."""
    return {name: value for name, value in row.items() if value is not None}


def read(anomaly: str, name: str) -> Case:
    """A stored case."""
    partitions = PARTITIONS if anomaly in CYCLES else 1
    folder = ROOT / anomaly / name
    tables = {table: _lines(folder / f"{table}.jsonl") for table in TABLES if (folder / f"{table}.jsonl").exists()}
    return Case(_lines(folder / "history.jsonl"), tables, partitions)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    for anomaly, name, case in build():
        folder = ROOT / anomaly / name
        folder.mkdir(parents=True, exist_ok=True)
        for table, rows in {"history": case.history, **case.tables}.items():
            text = "".join(json.dumps(known(row), separators=(",", ":")) + "\n" for row in rows)
            (folder / f"{table}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
