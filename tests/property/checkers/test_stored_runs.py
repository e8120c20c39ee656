"""A run's folder that only Hadoop knows, by way of viewfs, whose paths this machine's Python cannot open."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checkers import cli
from checkers.analysis import analyse
from checkers.evidence import fetched
from checkers.evidence.prepare import decoded_here
from checkers.evidence.segment_tasks import COLUMNS, Segment, decoded, segments_below
from checkers.spark.hadoop import HadoopFiles
from checkers.spark.places import Place, Stored, UnknownPlace, end_of, lines_with, put, remove, sha256_of, sizes_below
from tests.support.evidence_files import write_run
from tests.support.judging import pyspark_sockets
from tests.support.model_cluster import random_life
from tests.support.recorded_runs import unpacked

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V7")]

Mount = Callable[[Path], tuple[str, dict[str, str]]]


@pytest.fixture(scope="module")
def mount(spark: SparkSession) -> Iterator[Mount]:
    """Shows a folder as `viewfs://<name>/runs`: its URI, and the settings by which Hadoop knows it."""
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    links: list[str] = []

    def mounted(folder: Path) -> tuple[str, dict[str, str]]:
        name = f"lab{len(links)}"
        links.append(f"fs.viewfs.mounttable.{name}.link./runs")
        conf.set(links[-1], folder.as_uri())
        return f"viewfs://{name}/runs", {f"spark.hadoop.{links[-1]}": folder.as_uri()}

    yield mounted
    for link in links:
        conf.unset(link)


def results_of(folder: Path) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((folder / "results.json").read_text())
    results.pop("analysis")
    return results


def test_run_is_judged_by_its_uri_as_by_its_path(
    spark: SparkSession, tmp_path: Path, mount: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = unpacked(tmp_path / "runs")[0]
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    (folder / "results.json").write_text("of an earlier analysis")
    uri, conf = mount(folder.parent)
    # Its segments stay where they are, for Spark's workers.
    monkeypatch.setattr(fetched, "DRIVER_BYTES", 0)
    monkeypatch.setattr("checkers.evidence.prepare.DRIVER_BYTES", 0)
    with pyspark_sockets():
        analyse(f"{uri}/{folder.name}", spark=spark, spark_conf=conf, into=tmp_path / "into")
        analyse(copy, spark=spark)
    assert results_of(folder) == results_of(tmp_path / "into") == results_of(copy)
    assert (folder / "series.json").read_bytes() == (copy / "series.json").read_bytes()
    here = {path.name for path in (tmp_path / "into").rglob("*")}
    assert here >= {"run.json", "leader-epoch-checkpoint", "broker.log"}
    assert not here & {"history.jsonl", "events.jsonl", "00000000000000000000.log"}


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("stored") / "r", random_life(Random(3), "hw", steps=30, partitions=2))


@pytest.fixture(scope="module")
def stored(run_dir: Path, mount: Mount) -> Stored:
    uri, conf = mount(run_dir)
    return Stored(uri, HadoopFiles(uri, conf))


def test_files_are_asked_by_their_uris(run_dir: Path, stored: Stored, tmp_path: Path) -> None:
    assert dict(sizes_below(stored)) == dict(sizes_below(run_dir))
    assert dict(sizes_below(stored / "evidence" / "n1")) == dict(sizes_below(run_dir / "evidence" / "n1"))
    history = stored / "history.jsonl"
    assert sha256_of(history) == sha256_of(run_dir / "history.jsonl")
    assert end_of(history, 1) == b"\n"
    assert end_of(history, 1 << 30) == (run_dir / "history.jsonl").read_bytes()
    with pyspark_sockets():
        found = sorted(lines_with(history, '"drain-complete"'))
    assert found == sorted(line.rstrip(b"\n") for line in lines_with(run_dir / "history.jsonl", '"drain-complete"'))
    assert found
    (tmp_path / "some").write_text("thing")
    for _ in range(2):
        put(tmp_path / "some", stored / "new" / "file")
    assert (run_dir / "new" / "file").read_text() == "thing"
    for _ in range(2):
        remove(stored / "new")
    assert not (run_dir / "new").exists()


class _Watched:
    """A file system of Hadoop's, of which it is seen what a folder holds after each change. renames: if it does."""

    def __init__(self, system: Any, folder: Path, *, renames: bool = True) -> None:
        self._system, self._folder, self._renames = system, folder, renames
        self.seen: list[dict[str, str]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            if name == "rename" and not self._renames:
                return False
            answer = getattr(self._system, name)(*arguments)
            self.seen.append({path.name: path.read_text() for path in self._folder.glob("[!.]*")})
            return answer

        return call


def test_who_looks_while_a_file_is_put_sees_no_half_of_it(
    tmp_path: Path, mount: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, source = tmp_path / "r", tmp_path / "source"
    folder.mkdir()
    uri, conf = mount(folder)
    files = HadoopFiles(uri, conf)
    watched = _Watched(files._system, folder)
    monkeypatch.setattr(files, "_system", watched)
    for text in ("first", "second"):
        source.write_text(text)
        put(source, Stored(uri, files) / "results.json")
    assert watched.seen == [{}, {}, *[{"results.json": "first"}] * 2, {}, {"results.json": "second"}]
    assert [path.name for path in folder.iterdir() if not path.name.endswith(".crc")] == ["results.json"]
    monkeypatch.setattr(files, "_system", _Watched(watched._system, folder, renames=False))
    with pytest.raises(UnknownPlace, match=rf"^{uri}/results\.json: .*/\.results\.json\.part cannot be renamed to it$"):
        put(source, Stored(uri, files) / "results.json")


def test_file_that_is_gone_since_the_folder_was_listed_is_named(
    spark: SparkSession, tmp_path: Path, mount: Mount
) -> None:
    assert spark.version
    folder = tmp_path / "r"
    folder.mkdir()
    (folder / "history.jsonl").write_text("{}\n")
    uri, conf = mount(folder)
    gone = Stored(uri, HadoopFiles(uri, conf)) / "history.jsonl"
    (folder / "history.jsonl").unlink()
    asked: list[Callable[[], object]] = [
        lambda: end_of(gone, 1),
        lambda: sha256_of(gone),
        lambda: gone.files.fetch(gone.uri, tmp_path / "here"),
        lambda: list(lines_with(gone, "x")),
    ]
    for ask in asked:
        with pyspark_sockets(), pytest.raises(UnknownPlace, match=f"^{gone}: .*history.jsonl") as refused:
            ask()
        assert len(str(refused.value).splitlines()) == 1
    # What cannot be read cannot be written either: below a file nothing is.
    (folder / "run.json").write_text("{}")
    with pytest.raises(UnknownPlace, match=f"^{uri}/run.json/below: "):
        put(folder / "run.json", Stored(uri, gone.files) / "run.json" / "below")


@pytest.mark.parametrize("by_uri", [False, True], ids=["path", "uri"])
def test_workers_decode_segments_as_the_driver_does(
    spark: SparkSession, run_dir: Path, stored: Stored, by_uri: bool
) -> None:
    segments = [
        one for node in ("n1", "n2", "n3") for one in segments_below(node, sizes_below(run_dir / "evidence" / node))
    ]
    whole: Place = stored if by_uri else run_dir
    expected = list(decoded_here(run_dir / "evidence", segments))
    assert len(expected) > len(segments) > 1
    with pyspark_sockets():
        found = [row.asDict() for row in decoded(spark, segments, whole / "evidence").collect()]
    assert in_order(found) == in_order(expected)


def in_order(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    place = ("node", "p", "file", "file_position")
    return [tuple(row[name] for name in COLUMNS) for row in sorted(rows, key=lambda row: [row[name] for name in place])]


@pytest.mark.parametrize("by_uri", [False, True], ids=["path", "uri"])
def test_torn_and_empty_segments_are_told_by_workers_too(
    spark: SparkSession, tmp_path: Path, mount: Mount, by_uri: bool
) -> None:
    folder = tmp_path / "evidence" / "n1" / "data" / "hw-0"
    folder.mkdir(parents=True)
    (folder / "1.log").write_bytes(b"")
    (folder / "2.log").write_bytes(b"torn")
    segments: list[Segment] = segments_below("n1", sizes_below(tmp_path / "evidence" / "n1"))
    evidence: Place = tmp_path / "evidence"
    if by_uri:
        uri, conf = mount(tmp_path / "evidence")
        evidence = Stored(uri, HadoopFiles(uri, conf))
    with pyspark_sockets():
        (row,) = decoded(spark, segments, evidence).collect()
    assert (row.file, row.problem) == ("2.log", "torn tail: 4 bytes at 0 are no batch")


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("gone://there/r", r"^gone://there/r: Hadoop has no such file system here .*spark\.jars\.packages=GROUP:ART"),
        ("viewfs://nobody/r", r"^viewfs://nobody/r: java\.io\.IOException: .*nobody"),
    ],
)
def test_uri_under_which_there_is_nothing_is_refused(spark: SparkSession, uri: str, said: str) -> None:
    assert spark.version
    with pytest.raises(UnknownPlace, match=said):
        HadoopFiles(uri, {})


def test_folder_by_uri_that_holds_no_run_is_refused(
    spark: SparkSession, tmp_path: Path, mount: Mount, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "run.json").write_text("{}")
    uri, conf = mount(tmp_path)
    options = [word for name, value in conf.items() for word in ("--spark-conf", f"{name}={value}")]
    assert cli.main([f"{uri}/r", *options], spark=spark) == cli.CRASH
    assert capsys.readouterr().err == (
        f"checkers: {uri}/r: holds no history.jsonl; a run folder holds run.json and history.jsonl\n"
    )
