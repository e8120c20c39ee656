"""Run files and matrix files, as jobs.

Decides what a folder stands for, where a cell's run file is written, and what makes two runs the same. Must not know
what became of earlier nights. Invariant: every run file was read, and found usable, before the first job is due.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.nightly.jobs import Job
from harness.nightly.matrix import Cell, Night, is_matrix, parse_matrix, usable
from harness.plan.run_file import EXPECTATION, load_expectation
from harness.plan.toml_source import PlanError
from harness.runs import run
from harness.runs.outside_code import outside_names, run_code
from harness.runs.run_files import load
from harness.systems import system_kind


@dataclass(frozen=True, slots=True)
class Due:
    """night: how it is to be run, as a matrix file says. once: a job of each run file, without a seed of its own."""

    night: Night
    once: Sequence[Job]

    def jobs(self, first_seed: int, seeds: int) -> list[Job]:
        """Every seed of every run file, seed by seed, so that an interrupted night has seen all files."""
        return [replace(job, seed=seed) for seed in range(first_seed, first_seed + seeds) for job in self.once]


def read(files: Sequence[Path], out: Path, without: Sequence[str] = (), nodes: str | None = None) -> Due:
    """Run files, folders of them, and at most one matrix file, whose cells are written below `out`, but for those of
    `without` (`axis=value`). nodes: instead of the run files'. Raises PlanError for what cannot be used.
    """
    night: Night | None = None
    jobs: list[Job] = []
    for path in (found for file in files for found in _inside(file)):
        text = _text(path)
        if not is_matrix(path, text):
            jobs.append(_job(path, nodes))
            continue
        if night is not None:
            raise PlanError(f"{path}: a second matrix file; a night has one")
        night, cells = parse_matrix(path, text, without)
        jobs.extend(_cell_job(path, cell, out / "cells", nodes) for cell in cells)
    if night is None and without:
        raise PlanError(f"--leave-out {without[0]}: there are axes in a matrix file alone, and none is given")
    return Due(night or Night(), jobs)


def _inside(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.glob("*.toml") if not file.name.endswith(EXPECTATION))
    inside = [file for file in files if not is_matrix(file, _text(file))]
    if not inside:
        raise PlanError(f"{path}: holds no run file (*.toml)")
    return inside


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{path}: cannot be read: {error}") from None


def _cell_job(matrix: Path, cell: Cell, folder: Path, nodes: str | None) -> Job:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{cell.name}.toml"
    path.write_text(cell.text, encoding="utf-8")
    beside = path.with_suffix(EXPECTATION)
    beside.unlink(missing_ok=True)
    if cell.expectation is not None:
        beside.write_text(cell.expectation, encoding="utf-8")
    try:
        return replace(_job(path, nodes), cell=cell.values)
    except PlanError as error:
        raise usable(matrix, cell, error) from None


def _job(path: Path, nodes: str | None) -> Job:
    plan = load_expectation(path, load(path)).with_overrides(nodes=nodes)
    run.check(plan)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    code = run_code(system_kind(plan.system.kind).source(plan), outside_names(plan))
    return Job(str(path), plan.name, digest, 1, plan.expect, plan.expect_found, code)
