"""R6: ISR changes, sessions and time-outs go by the monotonic clock; who reads the wall clock, and why, stands here."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

pytestmark = pytest.mark.guarantee("R6")

BROKER = Path(__file__).resolve().parents[3] / "broker"
PROGRAMS_OF_THEIR_OWN = BROKER / "tools"
"""Command-line tools, clients of a broker: none of it runs in one."""
MAY_READ_IT = {
    "runtime/event_log.py": "a stamp on each line, beside the monotonic one",
    "log/environment.py": "when an idempotent producer was last seen, which has to outlive a restart",
    "server/data_plane.py": "retention and compaction compare with the timestamps of records; LogAppendTime is one",
    "server/control_plane.py": "timestamps in znodes, which nobody compares",
}
_OF_TIME = {"time", "time_ns", "localtime", "gmtime", "ctime", "clock_gettime", "clock_gettime_ns", "strftime"}
_MODULES = {"datetime", "calendar", "sched"}


def readers_of_the_wall_clock(source: str) -> list[int]:
    """Lines that read the wall clock, or import what could."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found = node.value.id == "time" and node.attr in _OF_TIME
        elif isinstance(node, ast.ImportFrom):
            found = node.module in _MODULES or (
                node.module == "time" and any(name.name in {*_OF_TIME, "*"} for name in node.names)
            )
        elif isinstance(node, ast.Import):
            found = any(name.name in _MODULES or (name.name == "time" and name.asname) for name in node.names)
        else:
            found = False
        if found:
            lines.append(node.lineno)  # type: ignore[attr-defined]
    return lines


def test_wall_clock_is_read_only_where_it_may_be() -> None:
    found = {
        str(path.relative_to(BROKER))
        for path in BROKER.rglob("*.py")
        if not path.is_relative_to(PROGRAMS_OF_THEIR_OWN)
        and readers_of_the_wall_clock(path.read_text(encoding="utf-8"))
    }
    assert found == set(MAY_READ_IT)


@pytest.mark.parametrize(
    "source",
    [
        "import time\nx = time.time()",
        "import time\nf(time.time_ns)",
        "from time import time",
        "import time as t",
        "from datetime import datetime",
        "import datetime",
    ],
)
def test_reader_of_the_wall_clock_is_seen(source: str) -> None:
    assert readers_of_the_wall_clock(source)


def test_reader_of_the_monotonic_clock_is_none() -> None:
    assert readers_of_the_wall_clock("import time\nfrom time import sleep\nx = time.monotonic_ns()") == []
