"""A run's folder on HDFS: a name node and a data node of Apache Hadoop's own, on the loopback address."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest
from pyspark.sql import SparkSession

from benchmarks.ports import free_port
from checkers.analysis import analyse
from checkers.spark.hadoop import HadoopFiles
from checkers.spark.places import Stored, put, sha256_of, sizes_below
from harness.tools.jars import maven_jars
from harness.tools.java import find_java_for_spark
from tests.support.judging import pyspark_sockets
from tests.support.recorded_runs import unpacked
from tests.support.wait import eventually
from tests.support.zookeeper import _die_with_parent

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.guarantee("V7"), pytest.mark.timeout(900)]

ONE_COPY = {"spark.hadoop.dfs.replication": "1"}


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address, `hdfs://127.0.0.1:<port>`."""
    folder = tmp_path_factory.mktemp("hdfs")
    root = f"hdfs://127.0.0.1:{free_port()}"
    loopback = dict.fromkeys(
        ("dfs.namenode.http-address", "dfs.datanode.address", "dfs.datanode.http.address", "dfs.datanode.ipc.address"),
        "127.0.0.1:0",
    )
    settings = {
        "fs.defaultFS": root,
        "dfs.replication": "1",
        "dfs.namenode.name.dir": (folder / "name").as_uri(),
        "dfs.datanode.data.dir": (folder / "data").as_uri(),
        **loopback,
    }
    properties = "".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>" for name, value in settings.items()
    )
    for file in ("core-site.xml", "hdfs-site.xml"):
        (folder / file).write_text(f"<configuration>{properties}</configuration>")
    jars = maven_jars("hadoop-minicluster-3.4.1", ["org.apache.hadoop:hadoop-client-minicluster:3.4.1"])
    java = [
        str(find_java_for_spark().executable),
        "-Xmx256m",
        f"-Djava.io.tmpdir={folder}",
        "-cp",
        f"{folder}:{jars}/*",
    ]
    server = "org.apache.hadoop.hdfs.server"
    subprocess.run([*java, f"{server}.namenode.NameNode", "-format"], check=True, capture_output=True, timeout=300)
    with ExitStack() as started:
        for name in ("namenode.NameNode", "datanode.DataNode"):
            started.enter_context(_process([*java, f"{server}.{name}"], folder / f"{name}.log"))
        yield root


@contextmanager
def _process(command: list[str], log: Path) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, preexec_fn=_die_with_parent)
    try:
        yield
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def results_of(folder: Path) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((folder / "results.json").read_text())
    results.pop("analysis")
    return results


@pytest.mark.parametrize("number", [0, 1], ids=["invalid", "valid"])
def test_run_on_hdfs_is_judged_as_on_a_path(hdfs: str, spark: SparkSession, tmp_path: Path, number: int) -> None:
    here = unpacked(tmp_path / "runs")[number]
    root = eventually(lambda: _written(hdfs), "HDFS takes files", 120)
    folder = root / here.name
    for name in sizes_below(here):
        put(here / name, folder / name)
    with pyspark_sockets():
        analyse(folder.uri, spark=spark, spark_conf=ONE_COPY, into=tmp_path / "into")
        analyse(here, spark=spark)
    assert results_of(tmp_path / "into") == results_of(here)
    written = Stored(folder.uri, HadoopFiles(folder.uri, ONE_COPY))
    for name in ("results.json", "series.json"):
        assert sha256_of(written / name) == sha256_of(tmp_path / "into" / name)


def _written(hdfs: str) -> Stored | None:
    """The root, once a file could be written."""
    probe = Path(__file__)
    try:
        root = Stored(hdfs, HadoopFiles(f"{hdfs}/", ONE_COPY))
        put(probe, root / "probe")
    except Exception:
        # No node has registered yet.
        return None
    return root
