"""Lines of JSON: what Arrow takes is what Spark's own reader makes of the line, and every line is in one place."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from checkers.history import schema
from checkers.history.lines import GROUP_ROWS, ODD_LINES, Form, write_lines
from checkers.history.load import load_history
from tests.property.checkers.odd_lines import ODD, PLAIN, broken
from tests.support.histories import Story, write_history
from tests.support.judging import pyspark_sockets

pytestmark = pytest.mark.spark

FORM = Form(T.StructType([field for field in schema.HISTORY_LINE.fields if field.name != schema.CORRUPT]))


def taken(line: bytes, folder: Path) -> dict[str, Any] | None:
    """The row that Arrow makes of a line, or None for one that is left to Spark."""
    (folder / "lines").write_bytes(line + b"\n")
    odd = write_lines(folder / "lines", FORM, folder / "parquet", folder / "odd")
    rows: list[dict[str, Any]] = pq.read_table(folder / "parquet").to_pylist()
    left = (folder / "odd").read_bytes() if odd else b""
    assert (len(rows), left) in ((1, b""), (0, line + b"\n"))
    return rows[0] if rows else None


def test_line_that_arrow_takes_is_what_spark_reads(spark: SparkSession, tmp_path: Path) -> None:
    random = Random(12)
    lines = [*PLAIN, *ODD, *(broken(random, line) for line in PLAIN for _ in range(120))]
    rows = [(line, row) for line in lines if (row := taken(line, tmp_path)) is not None]
    assert len(PLAIN) < len(rows) < len(lines)
    path = tmp_path / "taken.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line, _ in rows))
    read = spark.read.schema(schema.HISTORY_LINE).option("columnNameOfCorruptRecord", schema.CORRUPT)
    with pyspark_sockets():
        by_spark = read.json(path.as_uri()).coalesce(1).collect()
    assert len(by_spark) == len(rows)
    for (line, row), expected in zip(rows, by_spark, strict=True):
        assert {**row, schema.CORRUPT: None} == expected.asDict(recursive=True), line


@pytest.mark.parametrize("line", ODD)
def test_odd_line_is_left_to_spark(line: bytes, tmp_path: Path) -> None:
    assert taken(line, tmp_path) is None


@pytest.mark.parametrize("seed", range(30))
def test_every_line_is_in_one_place(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    lines: list[bytes] = []
    odd: list[bytes] = []
    for index in range(random.randrange(400)):
        line = random.choice(ODD) if random.random() < 0.02 else json.dumps({"index": index}).encode()
        (odd if line in ODD else lines).append(line)
    whole = sorted([*((index, line) for index, line in enumerate(lines)), *((random.random() * 400, o) for o in odd)])
    text = b"".join(line + b"\n" for _, line in whole)
    torn = random.random() < 0.5
    if torn:
        text += b'{"index":'
        odd.append(b'{"index":')
    path = tmp_path / "lines"
    path.write_bytes(text)
    count = write_lines(path, FORM, tmp_path / "parquet", tmp_path / "odd", chunk_bytes=random.randrange(1, 3000))
    assert count == len(odd)
    left = (tmp_path / "odd").read_bytes() if odd else b""
    assert sorted(left.removesuffix(b"\n").split(b"\n") if odd else []) == sorted(odd)
    assert pq.read_table(tmp_path / "parquet")["index"].to_pylist() == [json.loads(line)["index"] for line in lines]


def test_rows_of_one_text_are_together(tmp_path: Path) -> None:
    """Whoever looks for one kind of line reads all of it, and hardly any other."""
    random = Random(3)
    kinds = [*[b'"send"'] * 3, b'"poll"', b"null"]
    lines = [b'{"index":%d,"f":%b}' % (index, random.choice(kinds)) for index in range(8 * GROUP_ROWS)]
    lines += [b'{"index":-1,"f":"rare"}', b"{}"]
    random.shuffle(lines)
    (tmp_path / "lines").write_bytes(b"".join(line + b"\n" for line in lines))
    assert not write_lines(tmp_path / "lines", FORM, tmp_path / "parquet", tmp_path / "odd", apart="f")
    written = pq.ParquetFile(tmp_path / "parquet")
    groups = [written.read_row_group(number).to_pylist() for number in range(written.num_row_groups)]
    assert [{row["f"] for row in rows} for rows in groups] in (
        [{"send"}, {"poll"}, {None, "rare"}],
        [{"poll"}, {"send"}, {None, "rare"}],
    )
    for rows in groups:
        kinds_of = {row["f"] for row in rows}
        of_these = [one for line in lines if (one := json.loads(line)).get("f") in kinds_of]
        assert [row["index"] for row in rows] == [one.get("index") for one in of_these]


def test_rest_of_a_chunk_with_many_odd_lines_is_odd(tmp_path: Path) -> None:
    """Looking for each would take as many passes as there are."""
    pairs = 10 * ODD_LINES
    path = tmp_path / "lines"
    path.write_bytes(b'{"index":1}\nnull\n' * pairs)
    count = write_lines(path, FORM, tmp_path / "parquet", tmp_path / "odd")
    rows = pq.read_metadata(tmp_path / "parquet").num_rows
    assert count + rows == 2 * pairs
    assert ODD_LINES <= rows + 1 < pairs


def test_files_of_before_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    for text, expected in ((b"null\n", 1), (b'{"index":1}\n', 0)):
        path.write_bytes(text)
        assert write_lines(path, FORM, tmp_path / "parquet", tmp_path / "odd") == expected
        assert pq.read_metadata(tmp_path / "parquet").num_rows == 1 - expected
    assert not (tmp_path / "odd").exists()


def test_object_over_two_lines_is_odd_beside_two_on_one(tmp_path: Path) -> None:
    """As many rows as lines, but not a row for each."""
    path = tmp_path / "lines"
    path.write_bytes(b'{"index":1,"records":[\n{"offset":1}]}\n{"index":2}{"index":3}\n{"index":4}\n')
    assert write_lines(path, FORM, tmp_path / "parquet", tmp_path / "odd") == 3
    assert pq.read_table(tmp_path / "parquet")["index"].to_pylist() == [4]


def test_line_that_no_table_takes_is_a_problem_of_the_history(spark: SparkSession, tmp_path: Path) -> None:
    """A completion that is passed over would leave its operation without an answer."""
    story = Story()
    story.send(1, 0)
    whole = story.lines
    changes = ({"kind": "clients"}, {"kind": None}, {"type": "okay"}, {"time_ns": None}, {"f": None})
    strange = [{**whole[1], **change} for change in changes]
    problems = []
    for nth, last in enumerate([whole[1], *strange]):
        path = write_history(tmp_path / f"{nth}.jsonl", [whole[0], last])
        with pyspark_sockets():
            problems.append(load_history(spark, path, tmp_path / f"parquet{nth}")[1].problems)
    said = "1 lines of the history are of no type or kind that there is, or lack f or time"
    assert problems == [(), *[(said,)] * len(strange)]
