"""What a broker's log shows of errors that nobody expected."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from checkers.evidence.node_logs import failures, log_failures
from tests.unit.checkers.coverage.test_incidents import INFO

LOGGED = """\
16:35:01.355 INFO broker: broker 1 is up on 9092
16:35:02.000 ERROR broker.zk: watch failed
Traceback (most recent call last):
  File "worker.py", line 48, in run
    act()
KeyError: 'hw-0'
16:35:03.000 INFO broker: goes on
"""
EXPECTED = """\
16:35:02.000 WARNING broker.zk: closing the ZooKeeper session failed
Traceback (most recent call last):
  File "client.py", line 155, in close
ConnectionError: gone
16:35:03.000 INFO broker: goes on
"""
OF_A_THREAD = """\
16:35:01.355 INFO broker: broker 1 is up on 9092
Exception in thread controller:
Traceback (most recent call last):
  File "controller.py", line 1, in run
ValueError: no such epoch
"""


def test_failures_names_the_line_and_the_exception() -> None:
    assert failures(LOGGED.splitlines()) == ["16:35:02.000 ERROR broker.zk: watch failed: KeyError: 'hw-0'"]


def test_failures_of_what_the_broker_expected_are_none() -> None:
    assert failures(EXPECTED.splitlines()) == []


def test_failures_of_a_thread_that_ended() -> None:
    assert failures(OF_A_THREAD.splitlines()) == ["Exception in thread controller:: ValueError: no such epoch"]


def test_failures_of_a_bare_traceback() -> None:
    lines = ["Traceback (most recent call last):", '  File "a.py", line 1', "OSError: full"]
    assert failures(lines) == ["Traceback (most recent call last):: OSError: full"]


def test_failures_of_a_critical_line_are_one() -> None:
    lines = ["16:35:02.000 CRITICAL broker: log dir failed", *LOGGED.splitlines()[2:6]]
    assert failures(lines) == ["16:35:02.000 CRITICAL broker: log dir failed: KeyError: 'hw-0'"]


def test_failures_chained_count_for_one_record_each() -> None:
    lines = [
        *LOGGED.splitlines()[1:6],
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        "Traceback (most recent call last):",
        '  File "b.py", line 2',
        "OSError: full",
    ]
    assert failures(lines)[0].endswith("KeyError: 'hw-0'")


def test_log_failures_are_reported_by_node_and_only_of_brokers(tmp_path: Path) -> None:
    for node in ("n1", "zk1"):
        logs = tmp_path / "evidence" / node / "logs"
        logs.mkdir(parents=True)
        (logs / f"{node}.log").write_text(LOGGED + LOGGED)
    assert log_failures(tmp_path, INFO) == [
        "n1.log of n1: 16:35:02.000 ERROR broker.zk: watch failed: KeyError: 'hw-0' (and 1 more)"
    ]
    assert log_failures(tmp_path, replace(INFO, system_kind="kafka")) == []


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    """A node's, whose log had nothing wrong when it was copied first."""
    for folder in ("logs", "logs-after"):
        (tmp_path / "evidence" / "n1" / folder).mkdir(parents=True)
    (tmp_path / "evidence" / "n1" / "logs" / "broker.log").write_text(EXPECTED)
    return tmp_path / "evidence" / "n1"


def test_log_failures_of_the_rotation_are_in_the_later_copy(evidence: Path, tmp_path: Path) -> None:
    (evidence / "logs-after" / "broker.log").write_text(EXPECTED + LOGGED)
    assert log_failures(tmp_path, INFO) == [
        "broker.log of n1: 16:35:02.000 ERROR broker.zk: watch failed: KeyError: 'hw-0'"
    ]


def test_log_failures_that_both_copies_hold_count_once(evidence: Path, tmp_path: Path) -> None:
    # The first copy was made while a line was being written.
    (evidence / "logs" / "broker.log").write_text(LOGGED + EXPECTED[:20])
    (evidence / "logs-after" / "broker.log").write_text(LOGGED + EXPECTED)
    (report,) = log_failures(tmp_path, INFO)
    assert "more" not in report


def test_log_failures_of_a_log_that_was_begun_anew_are_those_of_both_copies(evidence: Path, tmp_path: Path) -> None:
    (evidence / "logs" / "broker.log").write_text(LOGGED)
    (evidence / "logs-after" / "broker.log").write_text(OF_A_THREAD)
    (report,) = log_failures(tmp_path, INFO)
    assert report.endswith("KeyError: 'hw-0' (and 1 more)")


def test_log_failures_of_a_run_without_later_copies_are_those_of_the_first(evidence: Path, tmp_path: Path) -> None:
    (evidence / "logs-after").rmdir()
    assert log_failures(tmp_path, INFO) == []
    (evidence / "logs" / "broker.log").write_text(LOGGED)
    assert len(log_failures(tmp_path, INFO)) == 1
