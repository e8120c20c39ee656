"""A value at two offsets that an idempotent real client sent: whose doing it is say the nodes' files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.histories import OUT, Story
from tests.support.judging import Case, invalid, judge_cases

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V3")]

Epochs = list[int | None]


def _told(name: str, reader: str = "confluent", **fields: Any) -> Story:
    """Value 2 is read at offset 1; value 3 is sent after that; 2 is acknowledged at 3, below which 3 stands."""
    s = Story(name)
    s.send(1, 0, process=1)
    twice = s.invoke(
        "send", values=[2], acks=-1, sentinel=False, process=2, reader=reader, in_order=True, node=None, **fields
    )
    s.poll(0, [(0, 1), (1, 2)], process=20)
    s.send(3, 2, process=3)
    s.complete(twice, base_offset=3)
    s.poll(0, [(0, 1), (1, 2), (2, 3), (3, 2)], process=21, consumer="c1")
    return s


def _files(story: Story, epochs: Epochs, nodes: tuple[str, ...] = ("n1", "n2")) -> list[dict[str, Any]]:
    """The batches at offsets 1 and 3 of each node, of producer 7; None: it does not have that one."""
    return [
        {
            "node": node,
            "p": f"{story.topic}-0",
            "file": f"{0:020d}.log",
            "file_position": 70 * base,
            "base": base,
            "last": base,
            "epoch": 0,
            "producer_id": 7,
            "producer_epoch": epoch,
            "base_sequence": 0,
            "control": False,
            "records": 1,
            "crc_ok": True,
            "digest": f"{base}",
            "values": [2],
            "problem": None,
        }
        for node in nodes
        for base, epoch in zip((1, 3), epochs, strict=True)
        if epoch is not None
    ]


CASES: dict[str, tuple[Epochs, str, dict[str, Any], str]] = {
    "anew": ([0, 1], "confluent", {}, "valid"),
    "java": ([0, 1], "java", {}, "valid"),
    "one-epoch": ([4, 4], "confluent", {}, "invalid"),
    "half": ([None, 1], "confluent", {}, "unknown"),
    "none": ([None, None], "confluent", {}, "unknown"),
    # It has to abort before it goes on under another epoch.
    "transaction": ([0, 1], "confluent", {"txn": 1, "transactional_id": "t"}, "invalid"),
    # The lab's own client sends a record once.
    "lab": ([0, 1], "wire", {}, "invalid"),
}

REFLECTED = {(1, 1): (0, 0), (1, 2): (1, 0), (2, 1): (0, 0), (2, 2): (0, 1), (2, 3): (1, 0)}
"""(places of an input, its outputs) → findings, and those that are allowed."""


def test_copies_are_the_clients_doing_where_each_is_of_a_producer_epoch_of_its_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    cases = {}
    for name, (epochs, reader, fields, _) in CASES.items():
        story = _told(name, reader, **fields)
        cases[name] = Case(story.lines, {"batches": _files(story, epochs)})
    parted = _told("replicas-differ")
    cases["replicas-differ"] = Case(
        parted.lines, {"batches": [*_files(parted, [0, 1], ("n1",)), *_files(parted, [1, 1], ("n2",))]}
    )
    judged = judge_cases(spark, tmp_path, cases, evidence_of_nodes=False)
    verdicts = {name: judged[name]["duplicate"].verdict for name in cases}
    assert verdicts == {name: verdict for name, (*_, verdict) in CASES.items()} | {"replicas-differ": "unknown"}
    assert judged["anew"]["duplicate"].counts["allowed"] == 1
    assert {name for name in cases if "real-time-order" in invalid(judged[name])} == {"transaction", "lab"}


def _reflected(name: str, copies: int, outputs: int) -> list[dict[str, Any]]:
    """Input 1 at so many offsets, of which so many outputs were made, in a transaction each."""
    s = Story(name)
    p, out = f"{name}-0", f"{name}{OUT}"
    s.send(1, copies - 1, process=2, reader="confluent", in_order=True, node=None)
    s.poll(0, [(nth, 1) for nth in range(copies)], isolation=1, process=3)
    for nth in range(outputs):
        of_it: dict[str, Any] = {"txn": 5 + nth, "transactional_id": "t", "process": 1}
        s.send(11 + nth, nth, topic=out, sources=[1], **of_it)
        s.coordinate("txn_offsets", group="g", offsets=[{"p": p, "offset": copies}], **of_it)
        s.coordinate("end_txn", commit=True, **of_it)
    s.poll(0, [(nth, 11 + nth) for nth in range(outputs)], isolation=1, topic=out, process=4, consumer="out")
    s.drained(outputs, topic=out, isolation=1, phase="drain-n1")
    answer = {"offsets": [{"p": p, "offset": copies}]}
    s.coordinate("fetch_offsets", group="g", partitions=[p], answer=answer, process=5, phase="final")
    return s.lines


def test_an_input_is_reflected_once_for_each_place_where_its_client_put_it(spark: SparkSession, tmp_path: Path) -> None:
    cases = {f"r{copies}{made}": Case(_reflected(f"r{copies}{made}", copies, made)) for copies, made in REFLECTED}
    judged = judge_cases(spark, tmp_path, cases, transactions=True)
    counts = {name: results["exactly-once"].counts for name, results in judged.items()}
    told = {name: (of_it["found"], of_it.get("allowed", 0)) for name, of_it in counts.items()}
    assert told == {f"r{copies}{made}": expected for (copies, made), expected in REFLECTED.items()}
