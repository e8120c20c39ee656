"""The sandbox as the caller of a run sees it: exit codes, signals, the terminal, and nothing left."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.nodes.sandbox import inside_sandbox, probe, sandbox_command
from tests.support.processes import command_lines

pytestmark = pytest.mark.guarantee("H5")

# Says it is ready, counts the signals that reach it, and ends 0.3 s after the first with what it counted.
COUNTER = """
import signal, sys, time
seen = []
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: seen.append(number))
print("ready", flush=True)
deadline = time.monotonic() + 60
while not seen and time.monotonic() < deadline:
    time.sleep(0.02)
settle = time.monotonic() + 0.3
while time.monotonic() < settle:
    time.sleep(0.02)
print("seen", *map(int, seen), flush=True)
sys.exit(5)
"""


def until(condition: Callable[[], bool], what: str, timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not in {timeout_s} s: {what}"
        time.sleep(0.02)


def start(code: str, *, new_session: bool = False) -> subprocess.Popen[str]:
    return subprocess.Popen(
        sandbox_command([sys.executable, "-c", code]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=new_session,
    )


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        sandbox_command([sys.executable, "-c", code]),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
        cwd=Path(__file__).resolve().parents[3],
    )


def test_sandbox_here_can_be_made() -> None:
    assert probe() is None


@pytest.mark.parametrize("code", [0, 1, 2, 254, 255])
def test_sandbox_exit_code_of_the_command_is_passed_on(code: int) -> None:
    assert run(f"raise SystemExit({code})").returncode == code


def test_sandbox_command_that_dies_of_sigterm_ends_the_caller_so_too() -> None:
    assert run("import os; os.kill(os.getpid(), 15)").returncode == -signal.SIGTERM


def test_sandbox_command_that_does_not_exist_is_an_error_that_names_it() -> None:
    done = subprocess.run(sandbox_command(["/no/such"]), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 127
    assert "/no/such" in done.stderr


def test_inside_sandbox_is_true_inside_and_false_outside() -> None:
    assert not inside_sandbox()
    assert run("from harness.nodes.sandbox import inside_sandbox; assert inside_sandbox()").returncode == 0
    # A command in another network namespace of the same sandbox is not where the marker says.
    other = "import subprocess, sys; sys.exit(subprocess.call(['unshare', '--net', sys.executable, '-c', sys.argv[1]]))"
    check = "from harness.nodes.sandbox import inside_sandbox; assert not inside_sandbox()"
    done = subprocess.run(
        sandbox_command([sys.executable, "-c", other, check]),
        cwd=Path(__file__).resolve().parents[3],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_sandbox_has_its_own_processes_loopback_and_run_folder() -> None:
    done = run(
        "import os, socket, pathlib\n"
        "assert os.getpid() == 2 and os.getppid() == 1\n"
        "listener = socket.create_server(('127.0.0.1', 0))\n"
        "socket.create_connection(listener.getsockname(), timeout=5).close()\n"
        "assert {name for _, name in socket.if_nameindex()} == {'lo'}\n"
        "assert [file.name for file in pathlib.Path('/run').iterdir()] == ['highwater-sandbox.json']\n"
    )
    assert done.returncode == 0, done.stderr


def test_sandbox_orphans_are_reaped() -> None:
    done = run(
        "import os, pathlib, subprocess, time\n"
        "subprocess.run(['sh', '-c', 'true & sleep 0.1 & :'])\n"
        "deadline = time.monotonic() + 20\n"
        "others = lambda: [p for p in pathlib.Path('/proc').iterdir() if p.name.isdigit() and int(p.name) > 2]\n"
        "while others():\n"
        "    assert time.monotonic() < deadline, [(p / 'stat').read_text() for p in others()]\n"
        "    time.sleep(0.02)\n"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("to_group", [False, True])
def test_sandbox_signal_to_the_caller_reaches_the_command_once(number: signal.Signals, to_group: bool) -> None:
    with start(COUNTER, new_session=True) as outer:
        assert outer.stdout is not None
        assert outer.stdout.readline() == "ready\n"
        # As `kill PID` does, and as `timeout` and a shell's job control do.
        (os.killpg if to_group else os.kill)(outer.pid, number)
        assert outer.stdout.readline() == f"seen {int(number)}\n"
        assert outer.wait(20) == 5


def test_sandbox_ctrl_c_on_a_terminal_reaches_the_command_once() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        command = sandbox_command([sys.executable, "-c", COUNTER])
        os.execv(command[0], command)
    output = b""
    try:
        while b"seen" not in output or not output.endswith(b"\n"):
            output += os.read(terminal, 1000)
            if output == b"ready\r\n":
                os.write(terminal, b"\x03")
    finally:
        status = os.waitpid(pid, 0)[1]
        os.close(terminal)
    assert output.endswith(b"seen 2\r\n"), output
    assert os.waitstatus_to_exitcode(status) == 5


def test_sandbox_ignored_sigint_stays_ignored() -> None:
    # What `command &` in a script does.
    with subprocess.Popen(
        sandbox_command([sys.executable, "-c", COUNTER]),
        stdout=subprocess.PIPE,
        text=True,
        stdin=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    ) as outer:
        assert outer.stdout is not None
        assert outer.stdout.readline() == "ready\n"
        outer.send_signal(signal.SIGINT)
        outer.send_signal(signal.SIGTERM)
        assert outer.stdout.readline() == f"seen {int(signal.SIGTERM)}\n"


@pytest.mark.parametrize("victim", ["outer", "init", "command"])
def test_sandbox_killed_process_takes_everything_along(victim: str) -> None:
    token = f"token-{uuid.uuid4()}"
    code = (
        "import subprocess, sys, time\n"
        "sleep = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        f"subprocess.Popen([*sleep, '{token}-daemon'], start_new_session=True)\n"
        "subprocess.run(['ip', 'netns', 'add', 'hw-left'], check=True)\n"
        f"open('/dev/shm/{token}', 'w').close()\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    with start(code) as outer:
        assert outer.stdout is not None
        assert outer.stdout.readline() == "ready\n"
        init = _children(outer.pid)[0]
        pids = {"outer": outer.pid, "init": init, "command": _children(init)[0]}
        assert len(command_lines(f"{token}-daemon")) >= 2  # the daemon, and those that carry it in their code
        os.kill(pids[victim], signal.SIGKILL)
        outer.wait(20)
    until(lambda: not command_lines(token), "no process of the sandbox is left")
    assert not Path("/run/netns/hw-left").exists()
    assert not Path(f"/dev/shm/{token}").exists()


def _children(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
