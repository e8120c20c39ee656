"""What a replica's checkpoint files say of an offset, torn ones too, and where replicas disagree."""

from __future__ import annotations

import pytest

from harness.report.life.checkpoints import Checkpoints, checkpoints, disagreement
from tests.support.life_files import checkpoint, replica, run_files, sent

pytestmark = pytest.mark.guarantee("V6")

DATA = "evidence/n1/data"
EPOCHS = f"{DATA}/hw-0/leader-epoch-checkpoint"


def said(offset: int, **files: bytes) -> Checkpoints:
    """files: beside the replica, by their names with `_` for `-`."""
    below = {f"{DATA}/{name.replace('_', '-')}": content for name, content in files.items()}
    found = run_files({**replica("n1", sent(0, 1, 7), epochs="1 4\n3 10\n7 12"), **below}).replica("n1", "hw-0")
    assert found is not None
    return checkpoints(found, "n1", offset)


@pytest.mark.parametrize(
    ("offset", "epoch", "text"),
    [
        (3, None, "offset 3 lies below its first leader epoch, 1, from offset 4"),
        (4, 1, "leader epoch 1, from offset 4, up to leader epoch 3 from 10"),
        (9, 1, "leader epoch 1, from offset 4, up to leader epoch 3 from 10"),
        (10, 3, "leader epoch 3, from offset 10, up to leader epoch 7 from 12"),
        (50, 7, "leader epoch 7, from offset 12, the last"),
    ],
)
def test_leader_epoch_of_an_offset(offset: int, epoch: int | None, text: str) -> None:
    found = said(offset)
    assert (found.epoch, found.text) == (epoch, f"n1: {text}.")


def test_high_watermark_and_log_start_are_those_of_the_partition() -> None:
    found = said(
        4,
        replication_offset_checkpoint=checkpoint("hw 1 99", "hw 0 12", "w 0 5"),
        log_start_offset_checkpoint=checkpoint("hw 0 6"),
    )
    assert found.text.endswith(
        "; high watermark 12 when that was last written; log start 6 when that was last written."
    )
    assert found.log_start == 6
    other = said(4, replication_offset_checkpoint=checkpoint("hw 1 99"))
    assert "high watermark" not in other.text


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "its first line is '', not the version, 0"),
        (b"1\n1\n1 4\n", "its first line is '1', not the version, 0"),
        (b"0\n", "its second line is not the number of entries"),
        (b"0\n2\n1 4\n", "1 entries, and its second line says 2"),
        (b"0\n1\n1 4 6\n", "entry '1 4 6' has 3 fields, not 2"),
        (b"0\n1\nx 4\n", "invalid literal"),
        (b"\xff\xfe", "not the version, 0"),
    ],
)
def test_torn_epoch_file_is_said_and_says_no_epoch(content: bytes, why: str) -> None:
    files = {**replica("n1", sent(0, 1, 7)), EPOCHS: content}
    found = run_files(files).replica("n1", "hw-0")
    assert found is not None
    one = checkpoints(found, "n1", 4)
    assert one.epoch is None
    assert "leader-epoch-checkpoint is torn or damaged" in one.text
    assert why in one.text


def test_missing_and_empty_epoch_files_are_told_apart_and_a_torn_checkpoint_is_named() -> None:
    for content, text in ((None, "cannot be read: No such file"), (checkpoint(), "leader-epoch-checkpoint is empty")):
        files = {**replica("n1", sent(0, 1, 7)), **({} if content is None else {EPOCHS: content})}
        found = run_files(files).replica("n1", "hw-0")
        assert found is not None
        assert text in checkpoints(found, "n1", 4).text
    torn = said(4, replication_offset_checkpoint=b"0\n3\nhw 0 12\n")
    assert "replication-offset-checkpoint is torn or damaged: 1 entries, and its second line says 3" in torn.text


def test_replicas_disagree_only_where_they_name_different_epochs() -> None:
    assert disagreement([("n1", 2), ("n2", 2)], "by x") is None
    assert disagreement([], "by x") is None
    assert (
        disagreement([("n1", 2), ("n2", 3), ("n3", 2)], "by x")
        == "The replicas disagree: the offset is of leader epoch 2 by n1 and n3 and 3 by n2, by x."
    )
