"""Runs judged on a Spark cluster of a master and two workers: the verdict is what it is on one machine."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

from checkers.analysis import analyse
from tests.support.brokers import ROOT
from tests.support.judging import pyspark_sockets
from tests.support.recorded_runs import unpacked
from tests.support.spark_cluster import SPARK, Cluster, bare_interpreter, environment, spark_cluster

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V7"), pytest.mark.timeout(900)]

INVALID, VALID = "kip-101-high-watermark", "kip-101-leader-epoch"
CODES = {INVALID: 1, VALID: 0}
# A small run judged as a large one is: in many pieces, with segments and tables gone through by workers.
AS_LARGE = """
import sys
from checkers import analysis
from checkers.evidence import fetched, prepare
from checkers.spark import session
prepare.DRIVER_BYTES = fetched.DRIVER_BYTES = session.QUICK_BYTES = analysis.LEAST_BYTES = 0
from checkers.cli import main
sys.exit(main())
"""
# An own folder $1, with what is in $2, which nobody else sees, for the command that follows.
PRIVATE = 'mount -t tmpfs own "$1" && cp -r "$2/." "$1" && shift 2 && exec "$@"'


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    unpacked(folder)
    return folder


@pytest.fixture(scope="module")
def here(runs: Path, spark: SparkSession) -> Callable[[str], dict[str, Any]]:
    """What a run is judged to be in one process."""

    @functools.cache
    def results(name: str) -> dict[str, Any]:
        with pyspark_sockets():
            analyse(runs / name, spark=spark)
        found = results_of(runs / name)
        (runs / name / "results.json").unlink()
        return found

    return results


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running
    assert not [one for one in psutil.process_iter(["cmdline"]) if running.master in (one.info["cmdline"] or ())]


def results_of(folder: Path) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((folder / "results.json").read_text())
    results.pop("analysis")
    return results


def run(*argv: str | Path, code: int, cwd: Path, **variables: str) -> str:
    env = {**environment(), **variables}
    done = subprocess.run(argv, capture_output=True, text=True, cwd=cwd, env=env, timeout=600)
    assert done.returncode == code, f"{argv}: {done.returncode}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout + done.stderr


def test_run_is_judged_on_a_cluster_as_it_is_here(
    runs: Path, here: Callable[[str], dict[str, Any]], cluster: Cluster, tmp_path: Path
) -> None:
    folder, expected = runs / INVALID, here(INVALID)
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "harness.commands",
        "analyze",
        folder,
        "--spark-master",
        cluster.master,
    ]
    run(*command, code=1, cwd=ROOT)
    assert results_of(folder) == expected
    assert re.search("Registered app highwater-checkers", cluster.log)
    assert min(cluster.tasks_of(1), cluster.tasks_of(2)) > 0, "one of the workers had nothing to do"


@pytest.mark.nightly
@pytest.mark.parametrize("name", CODES)
@pytest.mark.parametrize("place", ["by a URI", "on a path that all see"])
def test_run_in_many_pieces_is_judged_by_workers_that_have_no_code_of_ours(
    runs: Path, here: Callable[[str], dict[str, Any]], cluster: Cluster, tmp_path: Path, place: str, name: str
) -> None:
    """The URI is of a file system that only Hadoop knows."""
    expected = here(name)
    python = bare_interpreter(tmp_path / "python")
    run(python, "-c", "import pyarrow, numpy, crc32c", code=0, cwd=tmp_path)
    assert "No module named 'checkers'" in run(python, "-c", "import checkers", code=1, cwd=tmp_path)
    settings = {
        "spark.pyspark.python": str(python),
        "spark.hadoop.fs.viewfs.mounttable.lab.link./runs": runs.as_uri(),
        # Java's start and its compiler take longer than the work.
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "2g",
    }
    options = [word for key, value in settings.items() for word in ("--spark-conf", f"{key}={value}")]
    script = tmp_path / "judge.py"
    script.write_text(AS_LARGE)
    argv: list[str | Path] = [
        sys.executable,
        script,
        f"viewfs://lab/runs/{name}" if place == "by a URI" else runs / name,
        "--spark-master",
        cluster.master,
        *options,
    ]
    run(*argv, code=CODES[name], cwd=ROOT, PYTHONPATH=str(ROOT))
    assert results_of(runs / name) == expected
    assert len(list((runs / name / "parquet" / "batches").glob("*.parquet"))) > 1
    assert list((runs / name / "parquet" / "settled" / "of-polls" / "returned").glob("*.parquet"))


@pytest.mark.nightly
def test_wheel_is_judged_with_by_spark_submit(
    runs: Path, here: Callable[[str], dict[str, Any]], cluster: Cluster, tmp_path: Path
) -> None:
    run(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, ROOT, code=0, cwd=ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    entry = tmp_path / "judge.py"
    entry.write_text((ROOT / "checkers" / "__main__.py").read_text())
    python = bare_interpreter(tmp_path / "python")
    argv: list[str | Path]
    for name, code in CODES.items():
        expected = here(name)
        argv = [SPARK / "bin" / "spark-submit", "--master", cluster.master, "--py-files", wheel, entry, runs / name]
        said = run(*argv, code=code, cwd=tmp_path, PYSPARK_PYTHON=str(python))
        assert expected["sentence"] in said
        assert results_of(runs / name) == expected


@pytest.mark.nightly
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
@pytest.mark.parametrize(
    ("has_a_copy", "said"),
    [
        (True, r"\d+ rows were written by the workers of spark://\S+, and 0 are there: the run's folder has to be one"),
        (
            False,
            r"who was to read a file of \S+ lacks it: where Spark has workers elsewhere, a run's folder has to be one",
        ),
    ],
    ids=["a copy", "none"],
)
def test_folder_that_each_worker_has_for_itself_gives_no_verdict(
    runs: Path, tmp_path: Path, has_a_copy: bool, said: str
) -> None:
    content = Path(shutil.copytree(runs, tmp_path / "copy")) if has_a_copy else tmp_path / "nothing"
    content.mkdir(exist_ok=True)
    before = ("unshare", "--mount", "sh", "-c", PRIVATE, "sh", str(runs), str(content))
    with spark_cluster(tmp_path, workers=1, before=before) as cluster:
        argv: list[str | Path] = [sys.executable, "-m", "checkers", runs / INVALID, "--spark-master", cluster.master]
        printed = run(*argv, code=255, cwd=ROOT)
    assert re.search(said, printed), printed
    assert not (runs / INVALID / "results.json").exists()
