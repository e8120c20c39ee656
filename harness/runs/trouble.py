"""What kept a run from a verdict: the nodes it needs, the system under test, the lab itself, a signal.

Decides which errors are whose. Must not know what is done about it. A failing machine must not look like a failing
system, and neither like a mistake in the lab.
"""

from __future__ import annotations

from harness.clients.connection import ClientError
from harness.nodes.base import CommandFailed
from harness.nodes.docker_engine import EngineMissing
from harness.nodes.docker_image import ImageMissing
from harness.nodes.firewall import FirewallMissing
from harness.nodes.sandbox import SandboxUnavailable
from harness.nodes.ssh import HostRefused
from harness.runs.run_control import Aborted
from harness.systems.waiting import SystemFailed
from harness.workloads.base import WorkloadFailed
from nemesis.script import ScriptFailed

INFRASTRUCTURE = "infrastructure"
"""A node, its engine, the way to it, or the machine's own resources."""
SYSTEM = "system"
"""The system under test did not come up, or did not do what a script waits for."""
LAB = "lab"
"""An error of the lab's own code."""
SIGNAL = "signal"
ANALYSIS = "analysis"
"""The run is recorded, and the checkers gave no verdict."""

_OF_NODES = (
    CommandFailed,
    EngineMissing,
    ImageMissing,
    FirewallMissing,
    SandboxUnavailable,
    HostRefused,
    OSError,
    EOFError,
)
_OF_SYSTEM = (SystemFailed, WorkloadFailed, ScriptFailed, ClientError)
_PACKAGES_OF_NODES = ("paramiko", "docker", "requests", "urllib3")


def trouble_of(error: BaseException) -> str:
    """Whose error it is, by the innermost cause that says so."""
    causes = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__
    for one in reversed(causes):
        if isinstance(one, Aborted):
            return SIGNAL
        if isinstance(one, _OF_NODES) or type(one).__module__.partition(".")[0] in _PACKAGES_OF_NODES:
            return INFRASTRUCTURE
        if isinstance(one, _OF_SYSTEM):
            return SYSTEM
    return LAB
