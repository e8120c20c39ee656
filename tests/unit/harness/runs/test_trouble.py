from __future__ import annotations

import pytest
from docker.errors import APIError
from paramiko import SSHException

from harness.nodes.base import CommandFailed
from harness.runs.run_control import Aborted, RunFailed
from harness.runs.trouble import INFRASTRUCTURE, LAB, SIGNAL, SYSTEM, trouble_of
from harness.systems.waiting import SystemFailed


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (CommandFailed("n1: iptables: code 4"), INFRASTRUCTURE),
        (SSHException("the channel was closed"), INFRASTRUCTURE),
        (APIError("no such container"), INFRASTRUCTURE),
        (OSError(28, "No space left on device"), INFRASTRUCTURE),
        (SystemFailed("node n1: broker gave no response within 60 s"), SYSTEM),
        (KeyError("offset"), LAB),
        (RunFailed("nemesis: has not ended 75 s after it was stopped"), LAB),
        (Aborted(), SIGNAL),
    ],
)
def test_every_error_has_an_owner(error: BaseException, trouble: str) -> None:
    assert trouble_of(error) == trouble


def test_the_innermost_cause_that_says_so_counts() -> None:
    """A broker that seems not to come up because its node went away."""
    outer, middle = RunFailed("setup"), SystemFailed("no response")
    outer.__cause__, middle.__cause__ = middle, SSHException("the channel was closed")
    assert trouble_of(outer) == INFRASTRUCTURE
    middle.__cause__ = KeyError("x")
    assert trouble_of(outer) == SYSTEM
