"""Runs `faults_on_nodes.py` inside a sandbox of namespaces, as a run of the lab does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.commands.doctor import State
from harness.commands.faults import fault_rows
from harness.nodes.docker_engine import can_start
from harness.nodes.docker_image import NodeImage
from harness.nodes.docker_nodes import ROOT
from harness.nodes.sandbox import probe, sandbox_command
from nemesis.catalogue import load_catalogue
from nemesis.waiting import until

pytestmark = pytest.mark.guarantee("H5")

INSIDE = Path(__file__).with_name("faults_on_nodes.py")


def run_inside(kind: str, *options: str) -> None:
    missing = probe()
    if missing is not None:
        pytest.fail(f"no sandbox on this machine: {missing}")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(INSIDE)]
    done = subprocess.run(
        sandbox_command(command),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "FAULTS_ON": kind},
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_faults_on_local_nodes_are_seen_and_taken_back() -> None:
    run_inside("local")


@pytest.mark.ssh
def test_faults_on_ssh_nodes_one_of_each_family_is_seen_and_taken_back() -> None:
    run_inside("ssh", "-k", "kill_is_seen or pause_is_seen or isolate_cuts or clock_step or power")


@pytest.mark.docker
def test_power_of_containers_fails_as_that_of_other_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert can_start() is None
    # As `enter_sandbox` does: the image needs a Debian mirror, which the sandbox does not reach.
    NodeImage().build_rootfs()
    # No engine of the machine: the test starts its own.
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/no-engine.sock")
    before = _loops()
    run_inside("docker", "-k", "power")
    # The kernel takes the mounts of a sandbox that is gone away in its own time.
    assert until(lambda: _loops() <= before, 60.0), f"containers that are gone hold loop devices: {_loops()}"


def _loops() -> set[str]:
    """Loop devices of this machine with images of containers."""
    found = subprocess.run(["losetup", "-n", "-l", "-O", "NAME,BACK-FILE"], capture_output=True, text=True, check=True)
    return {line for line in found.stdout.splitlines() if f"{ROOT}/disk/image" in line}


def test_faults_of_local_nodes_are_all_available_here() -> None:
    rows = [(row.what, row.state) for row in fault_rows()]
    assert rows == [(f"fault: {kind}", State.OK) for kind in load_catalogue().kinds]
