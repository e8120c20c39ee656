"""What a session that is open is told for one run: whether expressions are compiled (checkers/spark/session.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkers.spark.session import CODED_BYTES, _of_driver, suit

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V5")]

FACTORY, PIECES = "spark.sql.codegen.factoryMode", "spark.sql.shuffle.partitions"


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """One beside the others' session, of the same settings."""
    made = spark.newSession()
    for name in (FACTORY, PIECES):
        made.conf.set(name, spark.conf.get(name) or "")
    return made


def test_short_job_compiles_expressions_by_its_size(session: SparkSession) -> None:
    session.conf.set(PIECES, "1")
    for size, factory in ((0, "NO_CODEGEN"), (CODED_BYTES, "FALLBACK"), (CODED_BYTES - 1, "NO_CODEGEN")):
        suit(session, size)
        assert session.conf.get(FACTORY) == factory


def test_session_for_many_short_jobs_has_the_optimising_compiler(tmp_path: Path) -> None:
    one, many, long = (
        _of_driver(tmp_path, "1g", quick=quick, many=many)["spark.driver.extraJavaOptions"]
        for quick, many in ((True, False), (True, True), (False, False))
    )
    assert "-XX:TieredStopAtLevel=1" in one
    assert "TieredStopAtLevel" not in many + long
    assert "-XX:+UseSerialGC" in many


def test_long_job_is_left_as_it_is(session: SparkSession) -> None:
    session.conf.set(PIECES, "16")
    session.conf.set(FACTORY, "FALLBACK")
    suit(session, 0)
    assert session.conf.get(FACTORY) == "FALLBACK"
