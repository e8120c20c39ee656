"""Lines of event logs: what Arrow takes of them is what Spark's own reader makes of the line."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checkers.evidence.events import convert_events, load_events
from checkers.history import schema
from tests.property.checkers.odd_lines import broken
from tests.support.judging import pyspark_sockets
from tests.support.run_info import run_info

pytestmark = pytest.mark.spark

INFO = run_info(origin_monotonic_ns=1000)
PLAIN = [
    b'{"e":"start","b":1,"i":"a","s":0,"w":5,"m":1005,"pid":7,"version":"1","truncation":"leader-epoch","min_isr":2}',
    b'{"e":"fetch_received","b":1,"i":"a","s":1,"w":5,"m":7,"rid":"2-b-4","follower":2,"be":-1,"parts":[["t-0",17,0,-1]]}',
    b'{"e":"fetch_answered","b":2,"i":"b","s":9,"w":5,"m":7,"rid":"r","parts":[["t-0",0,17,205,-1,-1],["t~x-1",6,-1,0,3,4]]}',
    b'{"e":"fetch_sent","b":2,"i":"b","s":8,"w":5,"m":7,"parts":[]}',
    b'{"e":"hw","b":1,"i":"a","s":2,"w":5,"m":8,"p":"t-0","le":3,"hw":4,"isr":[1,2],"leos":{"1":17,"2":-1},"rid":null}',
    b'{"e":"isr_propose","b":1,"i":"a","s":3,"w":5,"m":8,"bes":{"3":4294967299},"isr":[],"leos":{}}',
    b'{"e":"isr_propose","s":4,"bes":null,"parts":null,"m":null}',
    b'{"e":"x","parts":[["a",null,"5"],null,[]]}',
    b'{"e":"ack","b":1,"s":4,"w":5,"m":9,"last":9223372036854775807}',
    b'{"e":"append","b":1,"s":4,"w":5,"m":-9223372036854775808,"le":0}',
    b'{"e":"hw","b":1,"s":4,"w":5,"m":9223372036854775807,"le":2147483647}',
    b"{}",
]
ODD = [
    b"",
    b"null",
    b'{"e":"hw","leos":[{"key":"1","value":2}]}',
    b'{"e":"hw","leos" : [{"key":"1","value":2}]}',
    b'{"e":"hw","l\\u0065os":[{"key":"1","value":2}]}',
    b'{"e":"hw","l\\u0065os":[{}]}',
    b'{"e":"hw","leos":{"1":2,"1":3}}',
    b'{"e":"hw","leos":{"1":2},"leos":{"2":3}}',
    b'{"e":"hw","leos":{"a":2}}',
    b'{"e":"hw","leos":{"1": 2}}',
    b'{"e":"hw","leos":{"1":02}}',
    b'{"e":"hw","leos":{"1":9223372036854775808}}',
    b'{"e":"hw","leos":{"1":null}}',
    b'{"e":"x","parts":[["a",01]]}',
    b'{"e":"x","parts":[["a",-0]]}',
    b'{"e":"x","parts":[["a",1.0]]}',
    b'{"e":"x","parts":[["a", 1]]}',
    b'{"e":"x","parts":[["a,5,b",1]]}',
    b'{"e":"x","parts":[["a",[1]]]}',
    b'{"e":"x","parts":[["a",1],]}',
    b'{"e":"x","parts":[["a",true]]}',
    b'{"e":"x","parts":["a",1]}',
    b'{"e":"hw","m":7',
]


def _rows(
    spark: SparkSession, path: Path, parquet: Path, *, by_arrow: bool
) -> tuple[list[dict[str, Any]], list[bytes]]:
    """(rows, lines that Arrow left to Spark)"""
    left = convert_events([("n1", path)], INFO, parquet) if by_arrow else None
    odd = [line for file in (left or {}).values() for line in Path(str(file)).read_bytes().splitlines()]
    with pyspark_sockets():
        rows = load_events(spark, [("n1", path)], INFO, parquet, left).collect()
    return [row.asDict(recursive=True) for row in rows], odd


def _sorted(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def test_event_line_that_arrow_takes_is_what_spark_reads(spark: SparkSession, tmp_path: Path) -> None:
    random = Random(5)
    lines = [*PLAIN, *(broken(random, line) for line in PLAIN for _ in range(60))]
    taken = [line for line in lines if not _is_odd(line, tmp_path)]
    assert len(PLAIN) * 2 < len(taken) < len(lines) / 2
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in taken))
    rows, odd = _rows(spark, path, tmp_path / "parquet", by_arrow=True)
    assert odd == []
    by_spark, _ = _rows(spark, path, tmp_path / "parquet", by_arrow=False)
    assert len(by_spark) == len(taken)
    for line, row, expected in zip(taken, rows, by_spark, strict=True):
        assert row == expected, line


@pytest.mark.parametrize("line", ODD)
def test_odd_event_line_is_left_to_spark(line: bytes, tmp_path: Path) -> None:
    assert _is_odd(line, tmp_path)


@pytest.mark.parametrize("line", PLAIN)
def test_plain_event_line_is_read_by_arrow(line: bytes, tmp_path: Path) -> None:
    assert not _is_odd(line, tmp_path)


def test_odd_lines_are_rows_among_the_others(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in [*PLAIN, *ODD, *PLAIN]))
    rows, odd = _rows(spark, path, tmp_path / "parquet", by_arrow=True)
    assert odd == ODD
    by_spark, _ = _rows(spark, path, tmp_path / "parquet", by_arrow=False)
    assert _sorted(rows) == _sorted(by_spark)
    assert sum(row[schema.CORRUPT] is not None for row in rows) > 1


def _is_odd(line: bytes, folder: Path) -> bool:
    path = folder / "one.jsonl"
    path.write_bytes(line + b"\n")
    left = convert_events([("n1", path)], INFO, folder / "one")
    assert left is not None
    return bool(left)
