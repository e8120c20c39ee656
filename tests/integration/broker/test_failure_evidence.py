"""A test that fails says what its brokers did."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.brokers import ROOT

_FAILING = """
import pytest

from tests.integration.admin.asking import create_topic
from tests.support.brokers import running_cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with running_cluster(tmp_path_factory.mktemp("cluster"), brokers=2) as running:
        yield running


def test_fails(cluster):
    create_topic(cluster, "watched", [[2]])
    cluster.brokers[1].kill()
    raise AssertionError("by intent")
"""


def test_failure_shows_states_output_and_events_of_its_cluster(tmp_path: Path) -> None:
    file = tmp_path / "test_failing.py"
    file.write_text(_FAILING, encoding="utf-8")
    options = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-c", "/dev/null", f"--rootdir={tmp_path}"]
    command = [sys.executable, "-m", "pytest", *options, f"--basetemp={tmp_path / 'base'}", str(file)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "AssertionError: by intent" in ended.stdout
    states, first, second = (
        ended.stdout.split(f" {title} ")[1].split("\n-----")[0]
        for title in ("partition states", "broker 1, not running", "broker 2, exit code None")
    )
    assert "watched-0: {" in states
    assert "'leader': 2" in states
    assert "'e': 'registered'" in first
    assert "watched-0: leader in epoch 0 from 0" in second
    assert "'e': 'become_leader'" in second
