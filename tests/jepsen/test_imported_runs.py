"""Imported histories as whole runs: what is judged of them, what is not, and what their sentence says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checkers.coverage.imported import SHOWN
from harness.exchange.jepsen_import import import_history
from tests.support.shared_session import judged_in

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V5")]

FOLDER = Path(__file__).parent
LOWERED = "; required less: acknowledged 1, election_faults 0, expansions 0, lag_shrinks 0."


@pytest.mark.parametrize(
    ("name", "verdict", "sentence"),
    [
        ("valid", "valid", "Valid: 4 acknowledged records on 2 partitions, all read, in a history from elsewhere"),
        pytest.param(
            "unseen",
            "unknown",
            "Unknown: unseen: 1 undecided: value 3 acknowledged (acks=-1) at jepsen-0 offset 2 was covered by no poll; "
            "3 acknowledged records on 1 partition, in a history from elsewhere",
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_imported_run_is_judged_by_what_it_can_show(
    spark: SparkSession, tmp_path: Path, name: str, verdict: str, sentence: str
) -> None:
    store = import_history(FOLDER / f"{name}.edn", tmp_path / "store", name, ["highwater", "import"])
    judged = judged_in(spark, store)
    assert (judged.verdict, judged.sentence) == (verdict, sentence + LOWERED)
    assert judged.report is not None, judged.report_problem
    results: dict[str, Any] = json.loads(store.results.read_text())
    shown = {checker for checker, check in results["checkers"].items() if check["verdict"] != "not-applicable"}
    assert shown <= {*SHOWN, "coverage"}
    assert {"lost-write", "unseen", "duplicate", "fabricated-value"} <= shown
    assert results["checkers"]["hw-monotone"]["reasons"] == [
        "a history from elsewhere has no epochs, watermarks, ends of logs, batches, drains or evidence of nodes"
    ]
    assert results["linearizability"]["verdict"] == "unknown"
