"""The contract of nodes (contract.py) on each kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.nodes.docker_engine import can_start
from harness.nodes.docker_image import NodeImage
from tests.integration.nodes.inner import run_pytest_in_sandbox

pytestmark = pytest.mark.guarantee("H1")

CONTRACT = str(Path(__file__).with_name("contract.py"))


def test_local_nodes_keep_the_contract() -> None:
    run_pytest_in_sandbox(CONTRACT, NODE_KIND="local")


@pytest.mark.ssh
def test_ssh_nodes_keep_the_contract() -> None:
    run_pytest_in_sandbox(CONTRACT, NODE_KIND="ssh")


@pytest.mark.docker
def test_docker_nodes_keep_the_contract() -> None:
    assert can_start() is None
    # As `enter_sandbox` does: the image needs a Debian mirror, which the sandbox does not reach.
    NodeImage().build_rootfs()
    # No engine of the machine: the test starts its own.
    run_pytest_in_sandbox(CONTRACT, NODE_KIND="docker", DOCKER_HOST="unix:///run/no-engine.sock")
