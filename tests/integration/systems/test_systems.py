"""Runs `systems_on_local_nodes.py` inside a sandbox of namespaces, as a run of the lab does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.nodes.sandbox import probe, sandbox_command

pytestmark = pytest.mark.guarantee("H1")

INSIDE = Path(__file__).with_name("systems_on_local_nodes.py")


def test_systems_on_local_nodes_start_fail_and_are_collected() -> None:
    missing = probe()
    if missing is not None:
        pytest.fail(f"no sandbox on this machine: {missing}")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(INSIDE)]
    done = subprocess.run(sandbox_command(command), capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
