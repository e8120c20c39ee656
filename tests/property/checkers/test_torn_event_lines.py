"""Which lines of an event log that cannot be read a kill may have torn, and which are damage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checkers.evidence.event_log_gaps import incarnations, unreadable
from checkers.evidence.events import convert_events, load_events, sound
from tests.support.judging import pyspark_sockets
from tests.support.run_info import run_info

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V5")]

INFO = run_info(origin_monotonic_ns=1000)
CUT: dict[str, Any] = {"from_leo": 9, "to": 4, "parts": [["t-0", 1]], "leos": {"1": 17}}


def _line(i: str, s: int, e: str = "truncate", **fields: Any) -> str:
    return json.dumps({"e": e, "b": 1, "i": i, "s": s, "w": 5, "m": 7, "p": "t-0", **fields}, separators=(",", ":"))


def _log(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


WHOLE = _line("a", 2, **CUT)
TORN = {
    "not at all": _log(_line("a", 0, "start"), _line("a", 1)),
    "in its last incarnation, with no end of the line": _log(_line("a", 0, "start"), _line("a", 1)) + WHOLE[:-9],
    "before the next one": _log(_line("a", 0, "start"), _line("a", 1), WHOLE[:-1], _line("b", 0, "start")),
    "before it says of which": _log(_line("a", 0, "start"), _line("a", 1), WHOLE[:12], _line("b", 0, "start")),
    "inside of its number": _log(_line("a", 0, "start"), '{"e":"hw","b":1,"i":"a","s":1', _line("b", 0, "start")),
    "in its first line": _log(_line("a", 0, "start", pid=7)[:-3], _line("b", 0, "start")),
    "as others write it": _log(_line("a", 0, "start"), json.dumps({"e": "hw", "i": "a", "s": 1, "leos": {}})[:-1]),
    "between braces": _log(_line("a", 0, "start"), _line("a", 1), WHOLE[: WHOLE.index("}") + 1]),
}
DAMAGED = {
    "with its end": _log(_line("a", 0, "start"), _line("a", 1), WHOLE.replace('"to":4', '"to":!')),
    "of another type": _log(_line("a", 0, "start"), _line("a", 1), WHOLE.replace('"to":4', '"to":"4x"')),
    "of a later number": _log(_line("a", 0, "start"), _line("a", 1), _line("a", 3)[:-1]),
    "of an earlier number": _log(_line("a", 0, "start"), _line("a", 1), _line("a", 1)[:-1]),
    "of who stopped": _log(_line("a", 0, "start"), _line("a", 1, "stop"), WHOLE[:-1], _line("b", 0, "start")),
    "of an incarnation that lacks its begin": _log(_line("b", 0, "start"), WHOLE[:-1]),
    "of no begin": _log(_line("a", 0, "start"), WHOLE[1:-1]),
    "of nothing but zeros": _log(_line("a", 0, "start"), "\0" * 40),
    "that is no object": _log(_line("a", 0, "start"), "null"),
}


def test_line_is_torn_where_a_kill_may_have_left_it(spark: SparkSession, tmp_path: Path) -> None:
    cases = {**TORN, **DAMAGED}
    files = []
    for nth, content in enumerate(cases.values()):
        files.append((f"n{nth}", tmp_path / f"{nth}.jsonl"))
        files[-1][1].write_text(content)
    left = convert_events(files, INFO, tmp_path / "parquet")
    with pyspark_sockets():
        raw = load_events(spark, files, INFO, tmp_path / "parquet", left)
        rows = unreadable(raw, incarnations(sound(raw))).collect()
    found = {name: [row.torn for row in rows if row.node == f"n{nth}"] for nth, name in enumerate(cases)}
    assert found == {name: [False] if name in DAMAGED else [True] * (name != "not at all") for name in cases}
    assert {row.node: row.open for row in rows}[f"n{list(cases).index('of who stopped')}"] == 1
