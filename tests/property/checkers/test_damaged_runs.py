"""Runs that were recorded, and damaged since: never valid, never a traceback, whatever is gone, cut or changed.

Two recorded runs, one of which lost a record, each with damage by chance (`tests/support/run_damage.py`): a few of them
by day, a thousand at night, all in one Spark session.
"""

from __future__ import annotations

import shutil
import traceback
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from checkers.analysis import analyse
from checkers.history.run_info import UnreadableRun
from tests.support.judging import pyspark_sockets
from tests.support.recorded_runs import unpacked
from tests.support.run_damage import MAY_CHANGE_NOTHING, damage, kinds

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V5")]

RUNS = {"kip-101-high-watermark": "invalid", "kip-101-leader-epoch": "valid"}
NIGHTLY = 1000
REFUSED = "refused"

BY_DAY = [
    ("kip-101-high-watermark", "history: operation dropped", 1),
    ("kip-101-leader-epoch", "evidence: nodes exchanged", 6),
]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs as they were recorded, each in a folder of its name."""
    folder = tmp_path_factory.mktemp("recorded")
    unpacked(folder)
    return folder


def _judge(spark: SparkSession, folder: Path) -> tuple[str, str]:
    """(verdict, sentence), or (refused, why)."""
    try:
        with pyspark_sockets():
            analysis = analyse(folder, spark=spark)
    except UnreadableRun as error:
        return REFUSED, str(error)
    return analysis.verdict, analysis.sentence


def _judge_damaged(spark: SparkSession, recorded: Path, scratch: Path, name: str, kind: str, seed: int) -> str:
    """The verdict; what is wrong with it fails the test."""
    folder = Path(shutil.copytree(recorded / name, scratch / f"{name}-{seed}"))
    what = damage(folder, kind, Random(seed))
    told = f"{name}, {kind}, seed {seed}: {what}"
    try:
        verdict, sentence = _judge(spark, folder)
    except Exception as error:
        raise AssertionError(f"{told}: {traceback.format_exc()}") from error
    if RUNS[name] == "invalid" or kind not in MAY_CHANGE_NOTHING:
        assert verdict != "valid", f"{told}: {sentence}"
    assert verdict != "unknown" or not sentence.startswith("Unknown: nothing was checked"), told
    shutil.rmtree(folder)
    return verdict


# By day the invalid one has its verdict by a cluster.
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.nightly] if verdict == "invalid" else []) for name, verdict in RUNS.items()],
)
def test_recorded_run_has_its_verdict(spark: SparkSession, recorded: Path, tmp_path: Path, name: str) -> None:
    folder = Path(shutil.copytree(recorded / name, tmp_path / name))
    verdict, sentence = _judge(spark, folder)
    assert verdict == RUNS[name], sentence


@pytest.mark.parametrize(("name", "kind", "seed"), BY_DAY)
def test_damaged_run_is_never_valid(
    spark: SparkSession, recorded: Path, tmp_path: Path, name: str, kind: str, seed: int
) -> None:
    _judge_damaged(spark, recorded, tmp_path, name, kind, seed)


@pytest.mark.nightly
@pytest.mark.timeout(4 * 3600)
def test_damaged_runs_are_never_valid_by_chance(spark: SparkSession, recorded: Path, tmp_path: Path) -> None:
    seen: Counter[tuple[str, str]] = Counter()
    wrong = []
    for seed, kind in enumerate(kinds(Random(NIGHTLY), NIGHTLY)):
        name = list(RUNS)[seed // 2 % 2]
        try:
            seen[kind, _judge_damaged(spark, recorded, tmp_path, name, kind, 1000 + seed)] += 1
        except AssertionError as error:
            wrong.append(str(error))
    print("".join(f"{count:5} {kind}: {verdict}\n" for (kind, verdict), count in sorted(seen.items())))
    assert not wrong, "\n\n".join(wrong)
