"""One record's life out of a run's folder: of every record of a model's run, and on the terminal and in the browser."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import BinaryIO

import pytest

from harness.commands import main as cli
from harness.report.life.files import RunFiles
from harness.report.life.holdings import holding
from harness.report.life.life import Life, NoSuchPlace, life
from tests.support.evidence_files import batch, record_value, write_run
from tests.support.model_cluster import ModelCluster
from tests.support.served import STAMP, served

pytestmark = pytest.mark.guarantee("V6")


@pytest.fixture(scope="module")
def model() -> ModelCluster:
    """Three brokers, two partitions, two leaders killed, a record that only a killed leader had, and a drain."""
    made = ModelCluster(Random(11), "hw", partitions=2)
    for nth in range(2):
        for _ in range(4):
            made.send(0, records=2)
            made.send(1)
        made.poll(0, 0)
        made.orphan(0)
        leader = made.partitions[0].leader
        made.kill(leader)
        made.send(0)
        made.start(leader, nth + 1)
    made.finish()
    return made


@pytest.fixture(scope="module")
def run(model: ModelCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("store") / "model" / STAMP, model)


def told(run: Path, p: str, offset: int) -> Life:
    return life(RunFiles.below(run), json.loads((run / "run.json").read_text()), p, offset, {})


def test_life_of_every_record_is_what_the_model_did(model: ModelCluster, run: Path) -> None:
    cut = 0
    for p in model.partitions:
        for offset, (epoch, value) in enumerate(p.logs[p.leader]):
            found = told(run, p.name, offset)
            assert value in found.values
            assert not found.missing
            kinds = [step.kind for step in found.steps]
            assert kinds.index("append") < kinds.index("commit")
            appended = [step.text for step in found.steps if step.kind == "append"]
            assert f"as leader, in leader epoch {epoch}." in appended[-1]
            assert len(appended) == 1 or "cut" in kinds
            assert [step.at_s for step in found.steps] == sorted(step.at_s for step in found.steps)
            cut += "cut" in kinds
            held = {model.name(b) for b in model.brokers if len(p.logs[b]) > offset}
            assert {one.node for one in found.holdings if one.value == value} == held
            reads = [
                line
                for line in model.story.lines
                if line["f"] == "poll"
                and line["type"] == "ok"
                and line["partition"] == p.number
                and any(record["offset"] == offset for record in line["records"])
            ]
            assert sum("returned offsets" in step.text for step in found.steps) == len(reads)
    assert cut, "a record that only a killed leader had was cut"


def test_history_is_read_through_once_unless_it_tells_of_more_than_the_files_hold(
    model: ModelCluster, run: Path
) -> None:
    below = RunFiles.below(run)
    read: list[tuple[str, ...]] = []

    def opened(parts: Sequence[str]) -> BinaryIO:
        read.append(tuple(parts))
        return below.open(parts)

    described = json.loads((run / "run.json").read_text())
    p = model.partitions[0]
    for offset, (_, value) in enumerate(p.logs[p.leader]):
        read.clear()
        found = life(RunFiles(opened, below.names), described, p.name, offset, {})
        assert found == told(run, p.name, offset)
        assert read.count(("history.jsonl",)) == (1 if found.values == (value,) else 2), found.values
    without_files = RunFiles(opened, lambda parts: [])
    read.clear()
    found = life(without_files, described, p.name, 0, {})
    assert found.values == (p.logs[p.leader][0][1],)
    assert found.steps == told(run, p.name, 0).steps
    assert read.count(("history.jsonl",)) == 2


def test_place_at_which_nothing_stood_says_so(model: ModelCluster, run: Path) -> None:
    found = told(run, "hw-0", 10_000)
    assert (found.values, found.steps) == ((), ())
    assert found.missing == ("Nothing that was recorded stood at offset 10000 of hw-0.",)
    assert all("before it" in one.text for one in found.holdings)


@pytest.mark.parametrize("p", ["hw", "hw-", "-0", "hw-x", "a/b-0", "hw-0\0", "hw-99999999999"])
def test_wrong_partition_is_named(run: Path, p: str) -> None:
    with pytest.raises(NoSuchPlace, match="topic-number"):
        told(run, p, 0)


def test_event_log_and_files_that_are_not_there_are_said_to_be_missing(model: ModelCluster, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", model)
    (run / "evidence" / "n1" / "events.jsonl").unlink()
    for file in (run / "evidence" / "n2" / "data" / "hw-0").iterdir():
        file.unlink()
    found = told(run, "hw-0", 0)
    assert found.missing == ("No event log of n1: No such file or directory.",)
    assert "n2: no files of hw-0 were copied." in [one.text for one in found.holdings]


def test_damaged_and_foreign_files_are_told_as_that(tmp_path: Path) -> None:
    folder = tmp_path / "evidence" / "n1" / "data" / "hw-0"
    folder.mkdir(parents=True)
    good, foreign = batch(0, 1, [record_value(17, "hw-0")]), batch(1, 1, [b"what others wrote"], gzip=True)
    torn = bytearray(batch(3, 1, [record_value(18, "hw-0")]))
    torn[-3] ^= 1
    (folder / f"{0:020d}.log").write_bytes(good + foreign + bytes(torn) + b"\0" * 7)
    said = [holding(RunFiles.below(tmp_path), "n1", "hw-0", offset).text for offset in range(5)]
    assert said[0] == "n1: value 17 at offset 0, of leader epoch 1."
    assert said[1] == "n1: a record that the lab did not write at offset 1, of leader epoch 1."
    assert said[2] == "n1: nothing at offset 2; the batch after it begins at 3."
    assert "is damaged" in said[3]
    assert "is damaged" in said[4]
    (folder / f"{0:020d}.log").rename(folder / f"{7:020d}.log")
    assert holding(RunFiles.below(tmp_path), "n1", "hw-0", 2).text == "n1: its log begins at offset 7."


def test_terminal_tells_a_life(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["record", str(run), "hw-0", "0"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("hw-0, offset 0: value ")
    for part in ("appended offsets 0 to 1 as leader", "the record is committed", "What is left of it:", "n3: value"):
        assert part in " ".join(said.split()), part
    assert cli.main(["record", str(run), "hw", "0"]) == 254
    assert "'hw': not a partition" in capsys.readouterr().err
    assert cli.main(["record", str(run), "hw-0", "-3"]) == 254
    assert "-3: not an offset" in capsys.readouterr().err


def test_page_tells_a_life_and_reads_nothing_outside_the_run(run: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / f"{0:020d}.log").write_bytes(batch(0, 1, [record_value(4711, "x-0")]))
    (run / "evidence" / "n1" / "data" / "x-0").symlink_to(tmp_path / "secret")
    here = f"/run/model/{STAMP}/record"
    with served(run.parent.parent) as server:
        page = server.get(f"{here}?p=hw-0&offset=0").text
        for part in ("hw-0, offset 0: value ", "the record is committed", "n3: value", 'name="offset" value="0"'):
            assert part in page, part
        assert "4711" not in server.get(f"{here}?p=x-0&offset=0").text
        empty = server.get(here)
        assert (empty.status, "Its life" in empty.text) == (200, False)
        bad = ("p=hw-0", "p=hw-0&offset=x", "p=hw&offset=1", "p=..%2f..-0&offset=1", "offset=3")
        assert [server.get(f"{here}?{query}").status for query in bad] == [404] * len(bad)
        history = (run / "history.jsonl").read_bytes()
        (run / "history.jsonl").write_bytes(b'{"partition":0,"topic":"hw","f":"send","records":7}\n')
        assert server.get(f"{here}?p=hw-0&offset=0").status == 404
        (run / "history.jsonl").write_bytes(history)
