"""The sandbox of a run: namespaces that the kernel empties when the run ends, however it ends.

Decides: how a command is run as a child of a private init, so that no process, network namespace, mount or firewall
rule outlives it, not even after kill -9 of any process of it. Must not know: nodes, runs, or anything else of the
harness; it imports the standard library only and is executed by its file name, isolated, in an interpreter with one
thread.

Three processes. The *outer* one is the process the caller started: it unshares (user namespace when it is not root,
then mount, pid, network and IPC), forks the init, and forwards signals. The *init* is pid 1 of the new pid
namespace: it makes /proc, /run and the loopback interface, reaps orphans, and ends with the *command*, its child;
when pid 1 ends the kernel kills every process of the namespace, and the last process takes the network namespaces
and mounts along. The init asks to be killed with the outer process (PR_SET_PDEATHSIG).

Invariants: each signal sent to the outer process (Ctrl-C included) reaches the command once, and only the command;
files are owned by the caller, whose uid is root's in the user namespace.

Source: pid_namespaces(7), user_namespaces(7), network_namespaces(7); docs/adr/0008-node-isolation.md.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

MARKER = Path("/run/highwater-sandbox.json")
"""On the private /run: the namespaces of the sandbox and the outer process, as seen from outside."""

_CLONE_NEWNS = 0x00020000
_CLONE_NEWIPC = 0x08000000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWPID = 0x20000000
_CLONE_NEWNET = 0x40000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 16384, 1 << 18
_PR_SET_PDEATHSIG = 1
_CAP_SYS_ADMIN = 21
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1

_FORWARDED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
)
EXIT_NO_SANDBOX = 255
_HOLD_INTERRUPT = "--hold-interrupt"


class SandboxUnavailable(Exception):
    """The kernel or the container refuses a namespace; the text says which, and what would help."""


def inside_sandbox() -> bool:
    """True when this process lives in the namespaces that the marker on its own private /run names."""
    try:
        marker = json.loads(MARKER.read_text())
        return all(os.readlink(f"/proc/self/ns/{kind}") == marker[kind] for kind in ("mnt", "net", "pid"))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def outer_process() -> tuple[int, int] | None:
    """(pid, start ticks) of the sandbox's outer process, as the pid namespace outside sees it; None outside."""
    if not inside_sandbox():
        return None
    marker = json.loads(MARKER.read_text())
    return int(marker["outer_pid"]), int(marker["outer_start"])


def start_ticks(pid: int | str) -> int:
    """When a process began, in clock ticks since boot, to distinguish it from a later one of that pid. OSError when
    gone.
    """
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[19])


def reexec_in_sandbox(argv: Sequence[str] | None = None, *, hold_interrupt: bool = False) -> NoReturn:
    """Replace this process by the sandbox's outer one; exits with the code of the command, or dies of its signal.

    argv: the command; by default the command line of this process, again (which finds `inside_sandbox()` true).
    hold_interrupt: the command starts with SIGINT blocked, and unblocks SIGINT when it can end in order.
    """
    command = list(argv) if argv is not None else [sys.executable, *sys.orig_argv[1:]]
    sys.stdout.flush()
    sys.stderr.flush()
    # The outer process waits for these signals; one that comes while its interpreter starts stays pending until then.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _not_ignored())
    try:
        os.execv(sys.executable, sandbox_command(command, hold_interrupt=hold_interrupt))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def sandbox_command(command: Sequence[str], *, hold_interrupt: bool = False) -> list[str]:
    """The argv that runs `command` in a sandbox of its own. hold_interrupt: as of `reexec_in_sandbox`."""
    held = [_HOLD_INTERRUPT] if hold_interrupt else []
    return [sys.executable, "-I", "-S", os.path.abspath(__file__), *held, *command]


def probe(timeout_s: float = 20.0) -> str | None:
    """None when a sandbox can be made here, else why not and what would help."""
    try:
        done = subprocess.run(
            sandbox_command(["/bin/true"]),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"


_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise SandboxUnavailable(f"{what}: {os.strerror(error)}.{_advice()}")


def _unshare(flags: int, what: str) -> None:
    _check(_libc.unshare(ctypes.c_int(flags)), what)


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None, what: str) -> None:
    encoded = [None if text is None else text.encode() for text in (source, target, kind, data)]
    _check(_libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]), what)


def _die_with_parent() -> None:
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "cannot tie the sandbox to its parent")


def _sysctl(name: str) -> str | None:
    try:
        return Path("/proc/sys", name.replace(".", "/")).read_text().strip()
    except OSError:
        return None


def _advice() -> str:
    """What would let this user make namespaces, from the settings that are known to forbid it."""
    if _sysctl("user.max_user_namespaces") == "0":
        return " User namespaces are switched off: sudo sysctl -w user.max_user_namespaces=15000, or run as root."
    if _sysctl("kernel.unprivileged_userns_clone") == "0":
        return (
            " Ordinary users may not make user namespaces:"
            " sudo sysctl -w kernel.unprivileged_userns_clone=1, or run as root."
        )
    if _sysctl("kernel.apparmor_restrict_unprivileged_userns") == "1":
        return (
            " AppArmor restricts user namespaces:"
            " sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or run as root."
        )
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        return " This is a container: start it with --privileged."
    return " Run as root with CAP_SYS_ADMIN, or where user namespaces are allowed (a container needs --privileged)."


def _has_cap_sys_admin() -> bool:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> _CAP_SYS_ADMIN & 1)
    return False


def _become_user_namespace_root() -> None:
    uid, gid = os.geteuid(), os.getegid()
    _unshare(_CLONE_NEWUSER, "cannot make a user namespace")
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    except OSError as error:
        raise SandboxUnavailable(f"cannot map uid {uid} in a user namespace: {error}.{_advice()}") from error


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(sock, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))


def _furnish(outer_pid: int, outer_start: int) -> None:
    """Give the new namespaces their own /proc, /run, /dev/shm and loopback, and say whose they are."""
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE, None, "cannot make mounts private")
    _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, None, "cannot mount /proc in the sandbox")
    # `ip netns`, the xtables lock, sshd and dockerd keep their state in /run.
    _mount("tmpfs", "/run", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755", "cannot mount /run in the sandbox")
    # libfaketime names its shared memory after a pid: pids of other sandboxes are the same small numbers, and a process
    # that is killed leaves its memory behind.
    _mount("tmpfs", "/dev/shm", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=1777", "cannot mount /dev/shm in the sandbox")
    _loopback_up()
    marker: dict[str, str | int] = {
        kind: os.readlink(f"/proc/self/ns/{kind}") for kind in ("mnt", "net", "pid", "user")
    }
    MARKER.write_text(json.dumps({**marker, "outer_pid": outer_pid, "outer_start": outer_start}))


def _report(text: str) -> None:
    # A caller that no longer listens must not change the exit code.
    with contextlib.suppress(OSError):
        print(f"highwater: {text}", file=sys.stderr, flush=True)


def _not_ignored() -> set[signal.Signals]:
    # A blocked signal is queued even where it was ignored (`command &` in a script ignores SIGINT): leave those alone.
    return {number for number in _FORWARDED if signal.getsignal(number) != signal.SIG_IGN}


def _init(command: Sequence[str], alive_fd: int, status_fd: int, outer: tuple[int, int]) -> NoReturn:
    """Pid 1 of the sandbox: furnish it, run the command, reap, report the command's wait status, end."""
    os.setpgid(0, 0)  # out of reach of the terminal and of signals to the caller's whole group
    _die_with_parent()
    alive = select.poll()
    alive.register(alive_fd, select.POLLIN)
    if alive.poll(0):  # the outer process died before it was our death signal
        os._exit(EXIT_NO_SANDBOX)
    try:
        _furnish(*outer)
    except (SandboxUnavailable, OSError) as error:
        _report(f"no sandbox: {error}")
        os.write(status_fd, struct.pack("i", EXIT_NO_SANDBOX << 8))
        os._exit(EXIT_NO_SANDBOX)
    child = os.fork()
    if child == 0:
        os.close(alive_fd)
        os.close(status_fd)
        _exec(command)
    while True:
        received = signal.sigwait({*_FORWARDED, signal.SIGCHLD})
        if received != signal.SIGCHLD:
            os.kill(child, received)
            continue
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid == child:
                os.write(status_fd, struct.pack("i", status))
                os._exit(0)


def _exec(command: Sequence[str]) -> NoReturn:
    # Own process group: what the terminal sends comes through the outer process, once. A background group that touches
    # the terminal would be stopped; ignoring these two turns that into an error of the read.
    os.setpgid(0, 0)
    signal.signal(signal.SIGTTIN, signal.SIG_IGN)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    held = {signal.SIGINT} if command[0] == _HOLD_INTERRUPT else set()
    command = command[1:] if held else command
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {*_FORWARDED, signal.SIGCHLD} - held)
    # The host's name may not resolve without its network; Spark asks for it.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
    try:
        os.execvp(command[0], list(command))
    except OSError as error:
        _report(f"cannot run {command[0]} in the sandbox: {error}")
        os._exit(127)


def _outer(command: Sequence[str]) -> NoReturn:
    """Make the namespaces, fork the init, forward signals, end as the command ended."""
    forwarded = _not_ignored()
    signal.pthread_sigmask(signal.SIG_BLOCK, {*forwarded, signal.SIGCHLD})
    outer = (os.getpid(), start_ticks("self"))
    try:
        if os.geteuid() != 0 or not _has_cap_sys_admin():
            _become_user_namespace_root()
        _unshare(
            _CLONE_NEWNS | _CLONE_NEWIPC | _CLONE_NEWPID | _CLONE_NEWNET,
            "cannot make mount, pid, network and IPC namespaces",
        )
    except (SandboxUnavailable, OSError) as error:
        _report(f"no sandbox: {error}")
        sys.exit(EXIT_NO_SANDBOX)
    alive_read, alive_write = os.pipe()
    status_read, status_write = os.pipe()
    init = os.fork()
    if init == 0:
        os.close(alive_write)
        os.close(status_read)
        # A signal in flight between fork and here stays with the outer process, which forwards it.
        _init(command, alive_read, status_write, outer)
    os.close(alive_read)
    os.close(status_write)
    while True:
        received = signal.sigwait({*forwarded, signal.SIGCHLD})
        if received != signal.SIGCHLD:
            with contextlib.suppress(ProcessLookupError):
                os.kill(init, received)
            continue
        if os.waitpid(init, os.WNOHANG)[0] == init:
            break
    raw = os.read(status_read, 4)
    if len(raw) < 4:
        _report("the sandbox was killed")
        sys.exit(128 + signal.SIGKILL)
    code = os.waitstatus_to_exitcode(struct.unpack("i", raw)[0])
    if code >= 0:
        sys.exit(code)
    if -code in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Shells and make end their loops for a child that died of the signal, not for one that exited.
        signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {*_FORWARDED})
        os.kill(os.getpid(), -code)
    sys.exit(128 - code)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python harness/nodes/sandbox.py COMMAND [ARGUMENT...]")
    _outer(sys.argv[1:])
