"""Which checkers judge append-poll."""

from __future__ import annotations

import pytest

from harness.plan.run_file import parse_plan
from harness.workloads import checkers_of

pytestmark = pytest.mark.guarantee("V2")

_RUN = """\
name = "x"
[workload]
kind = "append-poll"
"""
_DELETES = """
[[script]]
do = "delete-records"
before = 1
"""
_LOOKS = """
[[script]]
do = "list-offsets"
"""


def test_deletions_are_judged_where_a_script_makes_some() -> None:
    of_load = checkers_of(parse_plan("x.toml", _RUN))
    assert "deleted-records" not in of_load
    assert checkers_of(parse_plan("x.toml", _RUN + _LOOKS)) == of_load
    assert set(checkers_of(parse_plan("x.toml", _RUN + _LOOKS + _DELETES))) - set(of_load) == {"deleted-records"}
