"""One record's life out of a run's folder: of every record of a model's run, and on the terminal and in the browser."""

from __future__ import annotations

import html
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import BinaryIO

import pytest

from harness.commands import main as cli
from harness.report.build import build
from harness.report.life.files import RunFiles
from harness.report.life.holdings import holding
from harness.report.life.life import Life, NoSuchPlace, life
from tests.support.evidence_files import batch, record_value, write_run
from tests.support.model_cluster import ModelCluster
from tests.support.recorded_runs import unpacked
from tests.support.sample_run import RESULTS, SERIES, witness
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
    assert found.steps == tuple(step for step in told(run, p.name, 0).steps if step.lanes != ("ZooKeeper",))
    assert read.count(("history.jsonl",)) == 2


def test_place_at_which_nothing_stood_says_so(model: ModelCluster, run: Path) -> None:
    found = told(run, "hw-0", 10_000)
    assert (found.values, found.steps) == ((), ())
    assert found.missing == ("Nothing that was recorded stood at offset 10000 of hw-0.",)
    assert all("before it" in one.text for one in found.holdings)
    assert found.is_empty
    with pytest.raises(NoSuchPlace, match="'hw-2': not a partition of this run, which has hw-0 to hw-1"):
        told(run, "hw-2", 0)


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
    shutil.rmtree(run / "evidence" / "n3")
    (run / "evidence" / "zk1" / "zookeeper" / "version-2" / "log.1").write_bytes(b"nonsense" * 9)
    assert told(run, "hw-0", 0).missing[1:] == (
        "n3's evidence is missing: what it held, and what it did, is not known.",
        "zk1's transaction log log.1 is damaged: it begins with b'nons', not with b'ZKLG'.",
    )
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
    for part in (
        "Value 1: acknowledged (acks=all), read",
        "Version 0 of the state of hw-0 (zxid 0x6): leader n1, leader epoch 0, ISR n1, n2 and n3.",
        "appended offsets 0 to 1 as leader",
        "the record is committed",
        "What is left of it:",
        "n3: value",
        "What the checkpoints say:",
        "n3: leader epoch 0, from offset 0",
    ):
        assert part in " ".join(said.split()), part
    assert cli.main(["record", str(run), "hw", "0"]) == 254
    assert "'hw': not a partition" in capsys.readouterr().err
    assert cli.main(["record", str(run), "hw-7", "0"]) == 254
    assert "'hw-7': not a partition of this run" in capsys.readouterr().err
    assert cli.main(["record", str(run), "hw-0", "10000"]) == 254
    said = capsys.readouterr().err
    assert "Nothing that was recorded stood at offset 10000 of hw-0." in said
    assert "n2: its log ends at offset " in said
    assert cli.main(["record", str(run), "hw-0", "-3"]) == 254
    assert "-3: not an offset" in capsys.readouterr().err


def test_page_tells_a_life_and_reads_nothing_outside_the_run(run: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / f"{0:020d}.log").write_bytes(batch(0, 1, [record_value(4711, "x-0")]))
    (run / "evidence" / "n1" / "data" / "x-0").symlink_to(tmp_path / "secret")
    here = f"/run/model/{STAMP}/record"
    with served(run.parent.parent) as server:
        page = server.get(f"{here}?p=hw-0&offset=0").text
        for part in (
            "hw-0, offset 0: value ",
            "Value 1: acknowledged (acks=all), read",
            "Version 0 of the state of hw-0",
            "the record is committed",
            "n3: value",
            "n3: leader epoch 0, from offset 0",
            'name="offset" value="0"',
        ):
            assert part in page, part
        assert "4711" not in server.get(f"{here}?p=x-0&offset=0").text
        assert "Nothing that was recorded stood at offset 9999" in server.get(f"{here}?p=hw-0&offset=9999").text
        empty = server.get(here)
        assert (empty.status, "Its life" in empty.text) == (200, False)
        bad = ("p=hw-0", "p=hw-0&offset=x", "p=hw&offset=1", "p=..%2f..-0&offset=1", "offset=3")
        assert [server.get(f"{here}?{query}").status for query in bad] == [404] * len(bad)
        history = (run / "history.jsonl").read_bytes()
        (run / "history.jsonl").write_bytes(b'{"partition":0,"topic":"hw","f":"send","records":7}\n')
        assert server.get(f"{here}?p=hw-0&offset=0").status == 404
        (run / "history.jsonl").write_bytes(history)


def test_versions_of_the_state_stand_before_what_brokers_told_of_them(model: ModelCluster, run: Path) -> None:
    """Whoever became leader was chosen by a version that is told, and that came before."""
    p = model.partitions[0]
    for offset in range(len(p.logs[p.leader])):
        chosen: set[str] = set()
        for step in told(run, p.name, offset).steps:
            if step.lanes == ("ZooKeeper",):
                chosen |= set(re.findall(r"leader (n\d), leader epoch (\d+)", step.text))
            elif step.kind == "election":
                assert set(re.findall(r"(n\d) became leader in epoch (\d+)", step.text)) <= chosen


def test_life_of_a_record_that_a_real_run_lost(tmp_path: Path) -> None:
    run = next(path for path in unpacked(tmp_path) if path.name == "kip-101-high-watermark")
    found = told(run, "hw-0", 1)
    assert found.fates[0].startswith(
        "Value 1: acknowledged (acks=all), never read, though 8 polls went over its offset; no file that was copied "
        "holds it: value 1000000000000 stands there."
    )
    assert "(leader epoch 2, which was n3's by ZooKeeper)" in found.fates[1]
    assert found.missing == ("Files and logs of the nodes were copied at 23.723 s: what came later only clients tell.",)
    assert found.disagreements == ()
    said = [step.text for step in found.steps]
    order = [
        "Version 0 of the state of hw-0 (zxid 0x2f): leader n1, leader epoch 0",
        "n1's high watermark reached 2: the record is committed",
        "Version 1 of the state of hw-0 (zxid 0x34): leader n2, leader epoch 1, ISR n2 and n3 (n1 left). n3, the "
        "controller, chose n2 (offline)",
        "n3 cut its log from 2 to 1 (high-watermark)",
        "Version 2 of the state of hw-0 (zxid 0x3e): leader n3, leader epoch 2, ISR n3 (n2 left)",
        "n3 became leader in epoch 2, its log's end 1, not beyond this offset",
        "n1 cut its log from 2 to 1 (out-of-range)",
        "n3 appended offset 1 as leader, in leader epoch 2",
    ]
    places = [next(nth for nth, text in enumerate(said) if text.startswith(begins)) for begins in order]
    assert places == sorted(places)


def test_report_tells_the_life_of_each_witness_by_the_same_words(tmp_path: Path) -> None:
    run = next(path for path in unpacked(tmp_path) if path.name == "kip-101-high-watermark")
    results = json.loads(json.dumps(RESULTS))
    results["checkers"]["lost-write"]["witnesses"] = [
        witness("value 1 at hw-0 offset 1 was acknowledged and is gone", offset=1, value=1),
        witness("of no record", partition=None, offset=None, value=None, operations=[], evidence=[]),
        witness("at a place that the run has not", partition="hw-9", offset=1, value=None, operations=[], evidence=[]),
    ]
    (run / "results.json").write_text(json.dumps(results))
    (run / "series.json").write_text(json.dumps(SERIES))
    page = " ".join(html.unescape(build(run).read_text()).split())
    found = told(run, "hw-0", 1)
    assert page.count("The whole life of ") == 1
    assert f"The whole life of hw-0, offset 1, in {len(found.steps)} steps" in page
    for text in [
        *found.fates,
        *(step.text for step in found.steps),
        *(t for _, texts in found.sections for t in texts),
    ]:
        assert text in page, text
    (run / "history.jsonl").unlink()
    assert "The whole life of" not in build(run).read_text()
