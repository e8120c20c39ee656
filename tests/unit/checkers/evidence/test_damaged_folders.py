"""Damage by chance to recorded runs, before Spark reads anything: each is refused, or a reason for unknown.

What the checkers then make of a damaged run, `tests/property/checkers/test_damaged_runs.py` holds, one run at a time.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from checkers.evidence.prepare import prepare
from checkers.history.run_info import UnreadableRun, load_run_info
from tests.support.recorded_runs import unpacked
from tests.support.run_damage import DAMAGES, MAY_CHANGE_NOTHING, damage, kinds

pytestmark = pytest.mark.guarantee("V5")

SEED = 1000


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The runs as they were recorded."""
    return unpacked(tmp_path_factory.mktemp("recorded"))


def _outcome(folder: Path) -> str:
    """`refused`, `missing` where something counts as missing, or `whole`."""
    try:
        info = load_run_info(folder)
    except UnreadableRun:
        return "refused"
    if not (folder / "history.jsonl").is_file():
        # What `analyse` looks at first.
        return "refused"
    return "missing" if prepare(folder, info).missing_evidence else "whole"


def test_recorded_runs_are_whole(recorded: list[Path], tmp_path: Path) -> None:
    assert len(recorded) == 2
    for run in recorded:
        assert _outcome(Path(shutil.copytree(run, tmp_path / run.name))) == "whole"


@pytest.mark.parametrize("count", [135, pytest.param(1000, marks=pytest.mark.nightly)])
def test_damaged_folder_is_refused_or_counts_as_missing_something(
    recorded: list[Path], tmp_path: Path, count: int
) -> None:
    seen: Counter[tuple[str, str]] = Counter()
    for seed, kind in enumerate(kinds(Random(SEED), count)):
        run = recorded[seed // 2 % 2]
        folder = Path(shutil.copytree(run, tmp_path / "r"))
        told = f"{run.name}, {kind}, seed {SEED + seed}: {damage(folder, kind, Random(SEED + seed))}"
        try:
            outcome = _outcome(folder)
        except Exception as error:
            raise AssertionError(told) from error
        seen[kind, outcome] += 1
        assert outcome != "whole" or kind in MAY_CHANGE_NOTHING, told
        shutil.rmtree(folder)
    assert {kind for kind, _ in seen} == set(DAMAGES)
    print("".join(f"{count:5} {kind}: {outcome}\n" for (kind, outcome), count in sorted(seen.items())))
