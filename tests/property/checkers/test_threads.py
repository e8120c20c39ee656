"""Threads that carry out queries say once where these come from."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from checkers.spark.threads import threads
from tests.support.judging import pyspark_sockets

pytestmark = pytest.mark.spark


def test_thread_of_a_pool_has_said_where_its_queries_come_from(spark: SparkSession) -> None:
    def said() -> str | None:
        return spark.sparkContext.getLocalProperty("callSite.short")

    with pyspark_sockets():
        with threads(1) as pool:
            assert pool.submit(said).result() == "checkers"
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(said).result() is None


def test_thread_says_nothing_where_no_session_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    with threads(1) as pool:
        assert pool.submit(int).result() == 0
