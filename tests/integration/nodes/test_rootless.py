"""Local nodes for an ordinary user: the same sandbox, by a user namespace."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.nodes.sandbox import sandbox_command

pytestmark = pytest.mark.guarantee("H1")

ROOT = Path(__file__).resolve().parents[3]
NOBODY = 65534

SCRIPT = """
import os, signal, sys
from pathlib import Path
from harness.nodes import firewall
from harness.nodes.base import DaemonSpec
from harness.nodes.factory import make_nodes
from harness.nodes.sandbox import inside_sandbox

folder = Path(sys.argv[1])
assert inside_sandbox() and Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]
nodes = make_nodes("local", 2, 1, run_dir=folder, source=folder)
nodes.open()
one, two = nodes.nodes["n1"], nodes.nodes["n2"]
ping = ["ping", "-c", "1", "-W", "1", two.address]
one.run(ping)
firewall.cut(one, [two.address])
assert one.run(ping, check=False).returncode != 0
firewall.heal(one)
one.run(ping)
one.start(DaemonSpec("sleeper", ("sleep", "600")))
one.signal("sleeper", signal.SIGKILL)
assert one.wait_gone("sleeper", 10)
(folder / "result").write_text("done")
nodes.close()
"""


@pytest.fixture
def public_copy() -> Iterator[Path]:
    """The packages where any user can read them, in a folder that user owns."""
    folder = Path(tempfile.mkdtemp(prefix="highwater-rootless-", dir="/tmp"))
    folder.chmod(0o755)
    for package in ("harness", "broker"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    yield folder
    shutil.rmtree(folder)


def _python_for_all() -> str:
    """A Python that another user may execute: ours may live in root's home."""
    for candidate in (sys.executable, "/usr/bin/python3"):
        real = Path(candidate).resolve()
        if all(parent.stat().st_mode & 0o1 for parent in real.parents):
            return candidate
    pytest.fail(f"{sys.executable} is in a private folder and there is no /usr/bin/python3 for an ordinary user")


def test_local_nodes_ordinary_user_has_network_firewall_and_daemons(public_copy: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(public_copy), "PYTHONPATH": str(public_copy)}
    environment |= {"XDG_STATE_HOME": str(public_copy / "state"), "PYTHONDONTWRITEBYTECODE": "1"}
    sandboxed = [_python_for_all(), "-I", "-S", str(public_copy / "harness" / "nodes" / "sandbox.py")]
    command = [*sandboxed, _python_for_all(), "-c", SCRIPT, str(public_copy)]
    user = os.getuid()
    if user == 0:
        user = NOBODY
        os.chown(public_copy, NOBODY, NOBODY)
        command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *command]
    done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert (public_copy / "result").stat().st_uid == user
    assert not (public_copy / "nodes").exists()
    assert list((public_copy / "state").glob("**/*.json")) == []


def test_sandbox_without_user_namespaces_says_what_would_help() -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make a user namespace in which no other may be made")
    inner = sandbox_command(["/bin/true"])
    # A user namespace whose own limit of user namespaces is zero stands for a machine that forbids them.
    script = (
        'echo 0 > /proc/sys/user/max_user_namespaces && exec capsh --drop=cap_sys_admin -- -c \'exec "$@"\' sh "$@"'
    )
    command = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"]
    done = subprocess.run(
        [*command, "sh", "-c", script, "sh", *inner], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 255, done.stderr
    assert "cannot make a user namespace" in done.stderr
    assert "sysctl -w user.max_user_namespaces" in done.stderr
