"""Evidence of topics that are made anew gets the names of their lives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checkers.evidence.lives import checkpoints_of_lives, of_lives, segments_of_lives
from checkers.evidence.segment_tasks import Segment
from checkers.evidence.zk_txnlog import Change

pytestmark = [pytest.mark.guarantee("V2")]


def change(zxid: int, op: str, below: str, topic_id: str | None = None, topic: str = "hw-anew0") -> Change:
    data = None if topic_id is None else json.dumps({"version": 3, "partitions": {}, "topic_id": topic_id})
    return Change(zxid, 0, 0, 1, op, f"/brokers/topics/{topic}{below}", 0, data)


def test_znodes_below_a_topic_are_of_the_life_whose_id_it_has() -> None:
    changes = [
        change(1, "create", "", "A"),
        change(2, "create", "/partitions/0/state"),
        change(3, "create", "", topic="hw", topic_id="H"),
        change(4, "delete", "/partitions/0/state"),
        change(5, "delete", ""),
        # Its id is written after it was created, as by a controller that gives one to a topic from before.
        change(6, "create", "", None),
        change(7, "create", "/partitions/0/state"),
        change(8, "set", "", "B"),
        change(9, "set", "/partitions/0/state"),
    ]
    paths = [one.path.removeprefix("/brokers/topics/") for one in of_lives(changes, ["hw-anew0"])]
    assert paths == [
        "hw-anew0~A",
        "hw-anew0~A/partitions/0/state",
        "hw",
        "hw-anew0~A/partitions/0/state",
        "hw-anew0~A",
        "hw-anew0~B",
        "hw-anew0~B/partitions/0/state",
        "hw-anew0~B",
        "hw-anew0~B/partitions/0/state",
    ]


def test_znodes_of_a_life_without_an_id_keep_their_names() -> None:
    changes = [change(1, "create", "", None), change(2, "create", "/partitions/0/state")]
    assert of_lives(changes, ["hw-anew0"]) == changes
    assert of_lives([change(1, "create", "", "A")], []) == [change(1, "create", "", "A")]


def test_folders_are_of_the_life_that_they_name(tmp_path: Path) -> None:
    data = tmp_path / "n1" / "data"
    for folder, metadata in (("hw-0", "A"), ("hw-anew0-0", "B"), ("hw-anew0-1", None)):
        (data / folder).mkdir(parents=True)
        (data / folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        if metadata:
            (data / folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {metadata}")
    (data / "replication-offset-checkpoint").write_text("0\n2\nhw 0 5\nhw-anew0 0 7\n")
    segments = [
        Segment("n1", folder, f"n1/data/{folder}/0.log", 1, True) for folder in ("hw-0", "hw-anew0-0", "hw-anew0-1")
    ]
    named = [one.partition for one in segments_of_lives(segments, ["hw-anew0"], tmp_path)]
    assert named == ["hw-0", "hw-anew0~B-0", "hw-anew0-1"]
    rows = [(row["kind"], row["p"]) for row in checkpoints_of_lives("n1", data, ["hw-anew0"])]
    # What a broker's checkpoint says of it may be of a life before.
    assert rows == [
        ("high-watermark", "hw-0"),
        ("epoch", "hw-0"),
        ("epoch", "hw-anew0~B-0"),
        ("epoch", "hw-anew0-1"),
    ]
