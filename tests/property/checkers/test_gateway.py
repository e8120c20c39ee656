"""Plans are what they would be by pyspark's own calls to Java, with fewer of these."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from py4j.clientserver import ClientServerConnection
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from checkers.spark.gateway import MOST_AT_ONCE, shorten_calls
from tests.support.judging import pyspark_sockets

pytestmark = pytest.mark.spark


@contextmanager
def _counted() -> Iterator[list[str]]:
    """Every command that goes to Java, but for those that give objects back."""
    sent: list[str] = []
    send = ClientServerConnection.send_command

    def counting(self: ClientServerConnection, command: str) -> Any:
        if not command.startswith("m\n"):
            sent.append(command)
        return send(self, command)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClientServerConnection, "send_command", counting)
        yield sent


def test_column_of_a_name_and_literal_that_were_there_before_take_no_call(spark: SparkSession) -> None:
    F.col("p"), F.lit("read"), F.lit(None), F.lit(1)
    with _counted() as sent:
        F.col("p"), F.lit("read"), F.lit(None), F.lit(1)
    assert sent == []


def test_function_takes_one_call(spark: SparkSession) -> None:
    column = F.col("p")
    with _counted() as sent:
        F.max(column)
    assert len(sent) == 1, sent


@pytest.mark.parametrize("elements", [1, MOST_AT_ONCE, MOST_AT_ONCE + 1, 3 * MOST_AT_ONCE + 2])
def test_list_arrives_whole_and_in_order_in_few_calls(spark: SparkSession, elements: int) -> None:
    columns = [F.lit(number) for number in range(elements)]
    with _counted() as sent:
        whole = F.array(*columns)
    # The list, each part of it and its place there; the Seq; the function.
    assert len(sent) <= 3 + 2 * -(-elements // MOST_AT_ONCE), sent
    with pyspark_sockets():
        assert spark.range(1).select(whole.alias("all")).first() == (list(range(elements)),)


def test_list_of_nothing_and_list_with_nothing_in_it_arrive(spark: SparkSession) -> None:
    assert spark._jvm is not None
    assert spark._jvm.PythonUtils.toSeq([]).size() == 0
    assert spark._jvm.PythonUtils.toSeq(["a", None]).mkString(",") == "a,null"


def test_literals_that_are_equal_in_python_keep_their_types(spark: SparkSession) -> None:
    values = [F.lit(1), F.lit(True), F.lit(1.0), F.lit("1"), F.lit(2**40), F.lit(0), F.lit(False), F.lit(-0.0)]
    row = spark.range(1).select(*[value.alias(f"c{nth}") for nth, value in enumerate(values)])
    assert [field.dataType.simpleString() for field in row.schema.fields] == [
        *("int", "boolean", "double", "string", "bigint", "int", "boolean", "double")
    ]
    with pyspark_sockets():
        first = row.first()
    assert str(first) == "Row(c0=1, c1=True, c2=1.0, c3='1', c4=1099511627776, c5=0, c6=False, c7=-0.0)"


def test_shortening_again_changes_nothing(spark: SparkSession) -> None:
    assert spark._jvm is not None
    before = dict(vars(spark._jvm))
    shorten_calls(spark)
    assert vars(spark._jvm) == before
