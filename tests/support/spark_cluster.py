"""A standalone cluster of Spark's own master and workers, as processes of this machine on the loopback address."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from harness.tools.java import find_java_for_spark
from tests.support.wait import eventually
from tests.support.zookeeper import _die_with_parent

SPARK = Path(pyspark.__file__).parent
WORKER_MEMORY = "1g"


@dataclass(frozen=True, slots=True)
class Cluster:
    """master: its address, `spark://127.0.0.1:<port>`. folder: of the processes' logs and the workers' folders."""

    master: str
    folder: Path

    @property
    def log(self) -> str:
        """What the master has to say."""
        return (self.folder / "master.log").read_text()

    def tasks_of(self, worker: int) -> int:
        """How many tasks the executors of a worker (1, 2 …) were given."""
        logs = (self.folder / f"work-{worker}").glob("app-*/*/stderr")
        return sum(len(re.findall(r"Got assigned task", path.read_text())) for path in logs)


def environment() -> dict[str, str]:
    """Of Spark's programs, and of a driver."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return {
        **kept,
        "JAVA_HOME": str(find_java_for_spark().home),
        "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_HOSTNAME": "localhost",
    }


@contextmanager
def spark_cluster(folder: Path, *, workers: int = 2, before: tuple[str, ...] = ()) -> Iterator[Cluster]:
    """A master and workers of a core each, which are gone afterwards with all that they started.

    before: a command that becomes a worker, whose own command follows it.
    """
    with ExitStack() as started:
        master = started.enter_context(
            _process(folder / "master.log", "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        )
        address = eventually(lambda: _said(master, r"Starting Spark master at (spark://\S+)"), "the master", 120)
        for number in range(1, workers + 1):
            options = ("--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", WORKER_MEMORY)
            work = folder / f"work-{number}"
            started.enter_context(
                _process(
                    folder / f"worker-{number}.log",
                    "worker.Worker",
                    *(*options, "--work-dir", str(work), address),
                    before=before,
                    SPARK_LOCAL_DIRS=str(folder / f"local-{number}"),
                )
            )
        for number in range(1, workers + 1):
            log = folder / f"worker-{number}.log"
            eventually(lambda log=log: _said(log, r"(Successfully registered)"), f"worker {number}", 120)  # type: ignore[misc]
        yield Cluster(address, folder)


@contextmanager
def _process(log: Path, name: str, *options: str, before: tuple[str, ...] = (), **variables: str) -> Iterator[Path]:
    command = [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *options]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*before, *command],
            stdout=output,
            stderr=subprocess.STDOUT,
            # Executors end with their worker; what does not is in its group.
            start_new_session=True,
            preexec_fn=_die_with_parent,
            env={**environment(), "SPARK_DAEMON_MEMORY": "256m", **variables},
        )
    try:
        yield log
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            pass
        finally:
            _end_group(process.pid)
            process.wait()


def _end_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _said(log: Path, pattern: str) -> str | None:
    found = re.search(pattern, log.read_text(errors="replace"))
    return None if found is None else found[1]


def bare_interpreter(path: Path) -> Path:
    """A program at path: this interpreter with the packages that are installed here, but for ours.

    Ours are installed by a file that only the module `site` reads, which it leaves out.
    """
    packages = SPARK.parent
    path.write_text(
        "#!/bin/sh\n"
        f'PYTHONPATH={shlex.quote(str(packages))}"${{PYTHONPATH:+:$PYTHONPATH}}"\nexport PYTHONPATH\n'
        f'exec {shlex.quote(sys.executable)} -S "$@"\n'
    )
    path.chmod(0o755)
    return path
