"""What every kind of node does alike, through `run` and a POSIX shell: daemons, files, signals.

Decides: how a daemon is started so that it outlives the call, how it is identified later (pid and start time in a file
of `node.root`), and how it is signalled. Must not know: how a command reaches the node (the kinds' `run`, `put`,
`get`).

Invariants: a signal goes to a pid only when the process with that pid began when the daemon did; a zombie is gone.
"""

from __future__ import annotations

import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.nodes.base import CommandFailed, Completed, DaemonSpec

# Field 22 of /proc/PID/stat, the name in field 2 cut away as it may hold spaces and parentheses; 3rd field: Z is dead.
_LIBRARY = r"""
stat_of() { s=$(cat "/proc/$1/stat" 2>/dev/null) || return 1; s=${s##*) }; set -- $s; state=$1; shift 19; began=$1; }
alive() {
  [ -f "$1" ] && read -r pid start < "$1" && stat_of "$pid" && [ "$began" = "$start" ] || return 1
  [ "$state" != Z ] && [ "$state" != X ]
}
"""

_START = (
    _LIBRARY
    + r"""
file=$1; log=$2; cwd=$3; shift 3
if alive "$file"; then echo "it runs already, pid $pid" >&2; exit 11; fi
rm -f "$file"
cd "$cwd" || exit 12
# setsid does not fork here: a background job of a script leads no process group.
setsid sh -c 'file=$1; shift; s=$(cat /proc/$$/stat); s=${s##*) }
echo "$$ $(set -- $s; shift 19; echo $1)" > "$file.new"
mv "$file.new" "$file"; exec "$@"' daemon "$file" "$@" < /dev/null >> "$log" 2>&1 &
tries=0
while [ ! -s "$file" ]; do
  tries=$((tries + 1)); [ $tries -gt 500 ] && { echo "it did not start in 10 s" >&2; exit 13; }
  sleep 0.02
done
"""
)

_PID = _LIBRARY + 'alive "$1" && echo "$pid"\n'
_SIGNAL = _LIBRARY + 'if alive "$1"; then kill -"$2" "$pid"; else exit 11; fi\n'

CLEAN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class PosixNode(ABC):
    """A node whose kind only says how to run a command and copy files; see `harness.nodes.base.Node`."""

    daemon_environment: Mapping[str, str] = {}
    """What every daemon of this node needs beside PATH, LANG and HOME."""

    def __init__(self, name: str, address: str, root: str) -> None:
        self.name = name
        self.address = address
        self.root = root

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}, {self.address})"

    @abstractmethod
    def run(
        self,
        argv: Sequence[str],
        *,
        check: bool = True,
        timeout_s: float = 30.0,
        input_text: str | None = None,
    ) -> Completed:
        """Run a command on the node; see `Node.run`."""
        ...

    @abstractmethod
    def put(self, local: Path, remote: str) -> None:
        """Copy to the node; see `Node.put`."""
        ...

    @abstractmethod
    def get(self, remote: str, local: Path) -> None:
        """Copy from the node; see `Node.get`."""
        ...

    def start(self, spec: DaemonSpec) -> None:
        """Start a daemon; CommandFailed when one of that name is alive or the folder is missing."""
        self.run(["mkdir", "-p", f"{self.root}/logs", f"{self.root}/pids"])
        # env -i: what the harness was started with must not leak into the daemon.
        variables = {"PATH": CLEAN_PATH, "LANG": "C.UTF-8", "HOME": self.root, **self.daemon_environment, **spec.env}
        argv = ["env", "-i", *(f"{key}={value}" for key, value in variables.items()), *spec.argv]
        log = f"{self.root}/logs/{spec.name}.log"
        done = self._script(_START, self._pid_file(spec.name), log, spec.cwd or self.root, *argv)
        if done.returncode != 0:
            raise CommandFailed(
                f"node {self.name}: daemon {spec.name} not started: {done.stderr.strip() or done.returncode}"
                f" (command: {shlex.join(spec.argv)})"
            )

    def pid(self, name: str) -> int | None:
        """The daemon's pid as seen from `run`, or None."""
        done = self._script(_PID, self._pid_file(name))
        return int(done.stdout) if done.returncode == 0 else None

    def signal(self, name: str, signal_number: int) -> None:
        """Signal a daemon; CommandFailed when it is not running."""
        done = self._script(_SIGNAL, self._pid_file(name), str(int(signal_number)))
        if done.returncode != 0:
            why = "it is not running" if done.returncode == 11 else done.stderr.strip()
            raise CommandFailed(f"node {self.name}: cannot send signal {int(signal_number)} to {name}: {why}")

    def wait_gone(self, name: str, timeout_s: float) -> bool:
        """True once the daemon is gone, False after timeout_s."""
        deadline = time.monotonic() + timeout_s
        while self.pid(name) is not None:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.05)
        return True

    def write_text(self, remote: str, text: str) -> None:
        """Replace a file's content in one step; readers see the old or the new one."""
        script = 'mkdir -p "$(dirname "$1")" && cat > "$1.new" && mv "$1.new" "$1"'
        self.run(["sh", "-c", script, "sh", remote], input_text=text)

    def read_text(self, remote: str) -> str:
        """A file's content. Raises CommandFailed when it is not there."""
        return self.run(["cat", remote]).stdout

    def exists(self, remote: str) -> bool:
        """Whether there is a file or folder of that path."""
        return self.run(["test", "-e", remote], check=False).returncode == 0

    def daemons(self) -> list[str]:
        """Names of the daemons that were ever started here."""
        done = self.run(["sh", "-c", 'ls "$1"', "sh", f"{self.root}/pids"], check=False)
        return [line.removesuffix(".pid") for line in done.stdout.split() if line.endswith(".pid")]

    def kill_daemons(self) -> None:
        """Kill -9 every daemon of this node and wait until they are gone."""
        for name in self.daemons():
            if self.pid(name) is not None:
                self._script(_SIGNAL, self._pid_file(name), "9")
        for name in self.daemons():
            if not self.wait_gone(name, 10.0):
                raise CommandFailed(f"node {self.name}: daemon {name} survives kill -9")

    def _pid_file(self, name: str) -> str:
        return f"{self.root}/pids/{name}.pid"

    def _script(self, script: str, *arguments: str) -> Completed:
        return self.run(["sh", "-c", script, "sh", *arguments], check=False)


def failed(node: str, done: Completed) -> CommandFailed:
    """The exception for a command that exited non-zero."""
    tail = (done.stderr.strip() or done.stdout.strip())[-2000:]
    return CommandFailed(f"node {node}: {shlex.join(done.argv)[:500]} exited {done.returncode}: {tail}")


def timed_out(node: str, argv: Sequence[str], timeout_s: float) -> CommandFailed:
    """The exception for a command that did not end in time."""
    return CommandFailed(f"node {node}: {shlex.join(argv)[:500]} did not end in {timeout_s:g} s")
