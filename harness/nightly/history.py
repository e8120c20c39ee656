"""Every night and every run of it, in one SQLite file, `history.sqlite`.

Decides how results are kept and found again. Must not know what a night runs. Invariant: a run's row is there, whole,
once its result was recorded, however the process ends after it (a transaction each, synchronous=FULL).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

from harness.nightly.jobs import Figures, Job, Result, counts_as
from harness.runs.store import StoreError

FILE = "history.sqlite"
_VERSION = 1
_FIGURES = tuple(field.name for field in fields(Figures))
_SCHEMA = f"""
CREATE TABLE nights (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, began TEXT NOT NULL, ended TEXT, first_seed INTEGER NOT NULL,
    seeds INTEGER NOT NULL, exit_code INTEGER, not_run INTEGER
);
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, night INTEGER NOT NULL REFERENCES nights (id), key TEXT NOT NULL, schedule TEXT NOT NULL,
    name TEXT NOT NULL, file TEXT NOT NULL, cell TEXT NOT NULL, seed INTEGER NOT NULL, code TEXT NOT NULL,
    attempt INTEGER NOT NULL, began TEXT NOT NULL, seconds REAL NOT NULL, exit_code INTEGER NOT NULL,
    verdict TEXT NOT NULL, expected TEXT NOT NULL, counts_as TEXT NOT NULL, sentence TEXT NOT NULL, trouble TEXT,
    run_dir TEXT, removed TEXT, found TEXT NOT NULL, not_fired TEXT NOT NULL,
    {", ".join(f"{name} REAL" for name in _FIGURES)}
);
CREATE INDEX runs_of_night ON runs (night, key);
CREATE INDEX runs_of_name ON runs (name, id);
CREATE INDEX runs_of_schedule ON runs (schedule, id);
"""


@dataclass(frozen=True, slots=True)
class NightRow:
    """began, ended: ISO 8601, UTC; ended, exit_code, not_run (jobs): None while it goes on."""

    id: int
    name: str
    began: str
    ended: str | None
    first_seed: int
    seeds: int
    exit_code: int | None
    not_run: int | None


@dataclass(frozen=True, slots=True)
class RunRow:
    """One attempt at a job. removed: when its folder was removed; None: it was not."""

    id: int
    night: int
    key: str
    schedule: str
    name: str
    seed: int
    code: str
    attempt: int
    began: str
    counts_as: str
    removed: str | None
    result: Result


class NightHistory:
    """Open until `close`. For one thread. Raises StoreError where the file is not such a history, or is in use."""

    def __init__(self, path: Path, *, reading: bool = False) -> None:
        """reading: nothing is made or changed, also where there is no file yet."""
        self._path = path
        mode = "ro" if reading else "rwc"
        try:
            # Autocommit but for `_change`.
            self._db = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}", isolation_level=None, timeout=10.0, uri=True
            )
        except sqlite3.Error as error:
            raise self._unusable(error) from None
        try:
            self._db.row_factory = sqlite3.Row
            self._db.execute("PRAGMA synchronous = FULL")
            self._prepare(reading=reading)
        except sqlite3.Error as error:
            self._db.close()
            raise self._unusable(error) from None
        except StoreError:
            self._db.close()
            raise

    def _unusable(self, error: sqlite3.Error) -> StoreError:
        return StoreError(f"{self._path}: cannot be used as a history of nights: {error}; move the file away")

    def _prepare(self, *, reading: bool) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version == 0 and not reading:
            with self._change():
                for statement in _SCHEMA.split(";"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {_VERSION}")
        elif version != _VERSION:
            raise StoreError(f"{self._path}: a history of version {version}; this highwater knows version {_VERSION}")

    def close(self) -> None:
        """Give the file back."""
        self._db.close()

    @contextmanager
    def _change(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def begin_night(self, name: str, first_seed: int, seeds: int) -> NightRow:
        """A new night of this name, with so many seeds from the first one on."""
        with self._change():
            made = self._db.execute(
                "INSERT INTO nights (name, began, first_seed, seeds) VALUES (?, ?, ?, ?)",
                (name, _now(), first_seed, seeds),
            )
        assert made.lastrowid is not None
        return self.night(made.lastrowid)

    def night(self, night_id: int) -> NightRow:
        """One night."""
        (row,) = self._db.execute("SELECT * FROM nights WHERE id = ?", (night_id,)).fetchall()
        return NightRow(**dict(row))

    def every_night(self) -> list[NightRow]:
        """Of all names, the newest first."""
        rows = self._db.execute("SELECT * FROM nights ORDER BY id DESC").fetchall()
        return [NightRow(**dict(row)) for row in rows]

    def counts(self) -> dict[int, dict[str, int]]:
        """Night → what its jobs count as → how many, by the last attempt of each."""
        found: dict[int, dict[str, int]] = {}
        rows = self._db.execute(
            "SELECT night, counts_as, count(*) AS jobs FROM runs"
            " WHERE id IN (SELECT max(id) FROM runs GROUP BY night, key) GROUP BY night, counts_as"
        )
        for row in rows.fetchall():
            found.setdefault(row["night"], {})[row["counts_as"]] = row["jobs"]
        return found

    def nights(self, name: str) -> list[NightRow]:
        """All of this name, the oldest first."""
        rows = self._db.execute("SELECT * FROM nights WHERE name = ? ORDER BY id", (name,)).fetchall()
        return [NightRow(**dict(row)) for row in rows]

    def end_night(self, night_id: int, exit_code: int, not_run: int) -> None:
        """Say how the night came out. It may be gone on with, and end again."""
        with self._change():
            self._db.execute(
                "UPDATE nights SET ended = ?, exit_code = ?, not_run = ? WHERE id = ?",
                (_now(), exit_code, not_run, night_id),
            )

    def record(self, night_id: int, job: Job, result: Result) -> None:
        """Keep one attempt at a job."""
        values: dict[str, object] = {
            "night": night_id,
            "key": job.key,
            "schedule": job.schedule,
            "name": job.name,
            "file": job.file,
            "cell": json.dumps(dict(job.cell), sort_keys=True),
            "seed": job.seed,
            "code": job.code,
            "began": _now(-result.seconds),
            "seconds": result.seconds,
            "exit_code": result.exit_code,
            "verdict": result.verdict(),
            "expected": job.expect,
            "counts_as": counts_as(job, result),
            "sentence": result.sentence,
            "trouble": result.trouble,
            "run_dir": result.run_dir,
            "found": json.dumps(list(result.found)),
            "not_fired": json.dumps(list(result.not_fired)),
            **{name: getattr(result.figures, name) for name in _FIGURES},
        }
        with self._change():
            (before,) = self._db.execute(
                "SELECT count(*) FROM runs WHERE night = ? AND key = ?", (night_id, job.key)
            ).fetchone()
            values["attempt"] = before + 1
            self._db.execute(
                f"INSERT INTO runs ({', '.join(values)}) VALUES ({', '.join('?' for _ in values)})",
                tuple(values.values()),
            )

    def of_night(self, night_id: int) -> list[RunRow]:
        """Every attempt of a night, in the order of their ends."""
        return self._runs("WHERE night = ? ORDER BY id", (night_id,))

    def of_nights(self, night_ids: Sequence[int]) -> list[RunRow]:
        """Every attempt of these nights, in the order of their ends."""
        marks = ", ".join("?" for _ in night_ids)
        return self._runs(f"WHERE night IN ({marks}) ORDER BY id", tuple(night_ids))

    def longest_s(self, name: str) -> float | None:
        """The longest of the last ten judged runs of a run file of this name, in seconds."""
        row = self._db.execute(
            "SELECT max(seconds) FROM (SELECT seconds FROM runs WHERE name = ? AND verdict != 'crash'"
            " ORDER BY id DESC LIMIT 10)",
            (name,),
        ).fetchone()
        return None if row[0] is None else float(row[0])

    def kept(self) -> list[RunRow]:
        """Every attempt whose folder is not removed, the oldest first."""
        return self._runs("WHERE run_dir IS NOT NULL AND removed IS NULL ORDER BY id", ())

    def mark_removed(self, run_id: int) -> None:
        """Say that a run's folder is no more."""
        with self._change():
            self._db.execute("UPDATE runs SET removed = ? WHERE id = ?", (_now(), run_id))

    def _runs(self, where: str, values: Sequence[object]) -> list[RunRow]:
        return [_row(row) for row in self._db.execute(f"SELECT * FROM runs {where}", values).fetchall()]


_OF_ROW = ("id", "night", "key", "schedule", "name", "seed", "code", "attempt", "began", "counts_as", "removed")


def _row(row: sqlite3.Row) -> RunRow:
    result = Result(
        exit_code=row["exit_code"],
        seconds=row["seconds"],
        sentence=row["sentence"],
        run_dir=row["run_dir"],
        found=tuple(json.loads(row["found"])),
        not_fired=tuple(json.loads(row["not_fired"])),
        trouble=row["trouble"],
        figures=Figures(**{name: row[name] for name in _FIGURES}),
    )
    return RunRow(result=result, **{name: row[name] for name in _OF_ROW})


@contextmanager
def open_history(out: Path) -> Iterator[NightHistory]:
    """The history of a folder of nights, made where there is none."""
    with closing(NightHistory(out / FILE)) as history:
        yield history


@contextmanager
def read_history(folder: Path) -> Iterator[NightHistory]:
    """The history of a folder of nights as it is; nothing of it is changed. Raises StoreError where there is none."""
    with closing(NightHistory(folder / FILE, reading=True)) as history:
        yield history


def _now(offset_s: float = 0.0) -> str:
    return datetime.fromtimestamp(datetime.now(UTC).timestamp() + offset_s, UTC).isoformat(timespec="seconds")
