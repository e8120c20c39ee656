"""The evidence decoders against bytes that were written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.wire.control_records import EndOfTransaction, marker
from broker.wire.records import NewRecord, encode_batch
from checkers.evidence.checkpoints import read_checkpoints
from checkers.evidence.prepare import decoded_here
from checkers.evidence.segment_tasks import segments_below
from checkers.evidence.zk_ensemble import merged
from checkers.evidence.zk_txnlog import gaps, read_log_folder
from checkers.spark.places import sizes_below
from tests.support.evidence_files import (
    batch,
    create_body,
    multi_body,
    record_value,
    set_body,
    transaction,
    txn_log,
    write_checkpoint,
)

PARTITION = "hw-0"


def _segment(tmp_path: Path, data: bytes, name: str = "00000000000000000000.log") -> Path:
    folder = tmp_path / PARTITION
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(data)
    return folder


def read_partition(node: str, folder: Path) -> list[dict[str, Any]]:
    """As if it were the only one of its node."""
    sizes = {f"data/{folder.name}/{name}": size for name, size in sizes_below(folder).items()}
    below = folder.parent / "evidence" / node / "data"
    below.mkdir(parents=True, exist_ok=True)
    if not (below / folder.name).exists():
        (below / folder.name).symlink_to(folder)
    return list(decoded_here(folder.parent / "evidence", segments_below(node, sizes)))


def test_segment_batches_have_offsets_epochs_and_values(tmp_path: Path) -> None:
    first = batch(0, 0, [record_value(1, PARTITION), record_value(2, PARTITION)])
    second = batch(2, 3, [record_value(3, PARTITION)], gzip=True)
    rows = read_partition("n1", _segment(tmp_path, first + second))
    assert [(r["base"], r["last"], r["epoch"], r["values"]) for r in rows] == [(0, 1, 0, [1, 2]), (2, 2, 3, [3])]
    assert all(r["crc_ok"] and r["problem"] is None for r in rows)
    assert rows[1]["file_position"] == len(first)


@pytest.mark.parametrize(("committed", "said"), [(True, "commit"), (False, "abort")])
def test_segment_marker_says_how_its_transaction_ended(committed: bool, said: str, tmp_path: Path) -> None:
    """Bytes by the broker's own codec, which the decoder shares nothing with."""
    of = {"timestamps": 0, "producer_id": 7, "producer_epoch": 2, "transactional": True}
    data = encode_batch([NewRecord(None, record_value(1, PARTITION))], base_sequence=3, **of)  # type: ignore[arg-type]
    end = marker(EndOfTransaction(committed, 4))
    data += encode_batch([end], base_offset=1, control=True, **of)  # type: ignore[arg-type]
    rows = read_partition("n1", _segment(tmp_path, data))
    told = [(r["producer_id"], r["producer_epoch"], r["base_sequence"], r["transactional"], r["marker"]) for r in rows]
    assert told == [(7, 2, 3, True, None), (7, 2, -1, True, said)]


def test_segment_with_a_flipped_bit_has_a_bad_crc(tmp_path: Path) -> None:
    data = bytearray(batch(0, 0, [record_value(1, PARTITION)]))
    data[-3] ^= 1
    (row,) = read_partition("n1", _segment(tmp_path, bytes(data)))
    assert row["crc_ok"] is False


def test_segment_base_and_epoch_lie_outside_the_crc_but_inside_the_digest(tmp_path: Path) -> None:
    data = batch(0, 0, [record_value(1, PARTITION)])
    moved = data[:12] + (7).to_bytes(4, "big") + data[16:]
    (a,) = read_partition("n1", _segment(tmp_path, data))
    (b,) = read_partition("n1", _segment(tmp_path, moved))
    assert b["crc_ok"]
    assert a["digest"] != b["digest"]


def test_segment_torn_at_the_end_is_distinguished_from_damage(tmp_path: Path) -> None:
    data = batch(0, 0, [record_value(1, PARTITION)])
    folder = _segment(tmp_path, data + data[:30])
    assert [r["problem"] for r in read_partition("n1", folder)][1].startswith("torn tail: 30 bytes")
    _segment(tmp_path, data, "00000000000000000001.log")
    problems = [r["problem"] for r in read_partition("n1", folder) if r["problem"]]
    assert problems == ["30 bytes at " + str(len(data)) + " are no batch"]


@pytest.mark.parametrize(
    ("length", "after", "torn"),
    [(0, b"", True), (0, bytes(5000), True), (0, b"\0" * 2000 + b"x", False), (-1, b"\1" * 90, False), (7, b"", False)],
)
def test_segment_with_a_length_that_no_batch_has_is_torn_where_zeros_follow(
    tmp_path: Path, length: int, after: bytes, torn: bool
) -> None:
    whole = batch(0, 0, [record_value(1, PARTITION)])
    odd = (1).to_bytes(8, "big") + length.to_bytes(4, "big", signed=True)
    rest = bytes(60) if not length else whole[12:]
    problems = [r["problem"] for r in read_partition("n1", _segment(tmp_path, whole + odd + rest + after))]
    assert [text is not None and text.startswith("torn tail") for text in problems] == [False, torn]


def test_segment_of_another_magic_is_a_problem(tmp_path: Path) -> None:
    data = bytearray(batch(0, 0, [record_value(1, PARTITION)]))
    data[16] = 1
    (row,) = read_partition("n1", _segment(tmp_path, bytes(data)))
    assert row["problem"] == "magic 1, should be 2"


def test_checkpoints_are_read_and_damage_is_named(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "replication-offset-checkpoint", {("my-topic", 2): 17})
    folder = tmp_path / "my-topic-2"
    folder.mkdir()
    (folder / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n")
    rows = read_checkpoints("n1", tmp_path)
    assert {(r["kind"], r["p"], r["offset"]) for r in rows if r["problem"] is None} == {
        ("high-watermark", "my-topic-2", 17)
    }
    (bad,) = [r for r in rows if r["problem"]]
    assert bad["problem"] == "leader-epoch-checkpoint: 1 entries, its second line says 2"


@pytest.mark.parametrize("digits", [b"9" * 19, b"9" * 30, b"007", b"-1", b""])
def test_segment_value_that_is_no_number_of_64_bits_is_no_value(tmp_path: Path, digits: bytes) -> None:
    data = batch(0, 0, [digits + b"|hw-0|x|", record_value((1 << 63) - 1, PARTITION)])
    (row,) = read_partition("n1", _segment(tmp_path, data))
    assert (row["values"], row["problem"]) == ([None, (1 << 63) - 1], None)


@pytest.mark.parametrize("base", [(1 << 63) - 1, (1 << 62) + 1, 1 << 62, -(1 << 63)])
def test_segment_batch_beyond_all_logs_is_a_problem(tmp_path: Path, base: int) -> None:
    """Its offsets are no part of its CRC."""
    data = batch(base, 0, [record_value(value, PARTITION) for value in (1, 2)])
    (row,) = read_partition("n1", _segment(tmp_path, data))
    assert (row["base"], row["last"]) == (None, None)
    assert row["problem"] == f"offsets from {base} on, which no log has"


@pytest.mark.parametrize(
    ("epochs", "marks"),
    [
        ("0 99999999999999999999", "hw 0 99999999999999999999"),
        ("9999999999 0", "hw 9999999999 0"),
        ("0 -9223372036854775808", "hw 0 9223372036854775807"),
    ],
)
def test_checkpoints_of_numbers_that_nothing_has_are_a_problem(tmp_path: Path, epochs: str, marks: str) -> None:
    (tmp_path / PARTITION).mkdir()
    (tmp_path / PARTITION / "leader-epoch-checkpoint").write_text(f"0\n1\n{epochs}\n")
    (tmp_path / "replication-offset-checkpoint").write_text(f"0\n1\n{marks}\n")
    rows = read_checkpoints("n1", tmp_path)
    assert {(row["kind"], row["epoch"], row["offset"]) for row in rows} == {
        ("epoch", None, None),
        ("high-watermark", None, None),
    }
    assert all("has a number that no partition, epoch or log has" in row["problem"] for row in rows)


def _changes(tmp_path: Path, *transactions: bytes) -> list[tuple[object, ...]]:
    (tmp_path / "log.1").write_bytes(txn_log(transactions))
    log = read_log_folder(tmp_path)
    assert not log.problems
    changes, _ = merged({"zk1": log})
    return [(c.zxid, c.op, c.path, c.version, c.data) for _, c in changes]


def test_txn_log_has_creates_sets_deletes_and_multis(tmp_path: Path) -> None:
    multi = multi_body(
        [(1, create_body("/controller", "me", ephemeral=True)), (5, set_body("/controller_epoch", "2", 1))]
    )
    assert _changes(
        tmp_path,
        transaction(1, -10, b"\0\0\0\0"),
        transaction(2, 1, create_body("/a", "x")),
        transaction(3, 14, multi),
        transaction(4, 2, b"\0\0\0\2/a"),
    ) == [
        (2, "create", "/a", 0, "x"),
        (3, "create", "/controller", 0, "me"),
        (3, "set", "/controller_epoch", 1, "2"),
        (4, "delete", "/a", None, None),
    ]


def test_txn_log_has_nothing_of_a_multi_that_failed(tmp_path: Path) -> None:
    """What stands before the operation at fault is logged as it was asked for."""
    multi = multi_body([(5, set_body("/a", "y", 1)), (-1, b"\xff\xff\xff\x92"), (-1, b"\xff\xff\xff\xfe")])
    assert _changes(tmp_path, transaction(1, 1, create_body("/a", "x")), transaction(2, 14, multi)) == [
        (1, "create", "/a", 0, "x")
    ]


def test_txn_log_deletes_ephemerals_with_their_session(tmp_path: Path) -> None:
    changes = _changes(
        tmp_path,
        transaction(1, 1, create_body("/brokers/ids/1", "{}", ephemeral=True), session=9),
        transaction(2, 1, create_body("/brokers/ids/2", "{}", ephemeral=True), session=8),
        transaction(3, -11, b"", session=9),
    )
    assert changes[-1] == (3, "delete", "/brokers/ids/1", None, None)
    assert len(changes) == 3


def test_txn_log_with_a_missing_transaction_says_so(tmp_path: Path) -> None:
    (tmp_path / "log.1").write_bytes(
        txn_log([transaction(1, 1, create_body("/a", "")), transaction(3, 1, create_body("/b", ""))])
    )
    assert read_log_folder(tmp_path).problems == ["transactions are missing before zxid 0x3"]


def test_txn_log_with_a_broken_entry_says_so(tmp_path: Path) -> None:
    data = bytearray(txn_log([transaction(1, 1, create_body("/a", "x"))]))
    data[40] ^= 1
    (tmp_path / "log.1").write_bytes(bytes(data))
    (problem,) = read_log_folder(tmp_path).problems
    assert "checksum" in problem


@pytest.mark.parametrize(
    ("at", "byte", "problem"),
    [
        # Its end; its length, by 2 bytes, by 64 KiB, and to nothing.
        (-1, b"X", "something is written after the end of the log"),
        (11, b"\x30", "something is written after the end of the log"),
        (9, b"\1", "in a file that ends"),
        (11, b"\0", "something is written after the end of the log"),
    ],
)
def test_txn_log_with_a_broken_entry_before_others_is_not_torn(
    tmp_path: Path, at: int, byte: bytes, problem: str
) -> None:
    entries = [transaction(zxid, 1, create_body("/a", "")) for zxid in (1, 2)]
    begin, following = 16, 16 + 12 + len(entries[0]) + 1
    data = bytearray(txn_log(entries))
    where = begin + at if at >= 0 else following + at
    assert data[where : where + 1] != byte
    data[where : where + 1] = byte
    (tmp_path / "log.1").write_bytes(bytes(data))
    log = read_log_folder(tmp_path)
    assert [problem in one for one in log.unread] == [True]
    # The last one is torn where nothing of it was written from there on.
    (tmp_path / "log.1").write_bytes(txn_log(entries[:1])[: following - 5] + bytes(1024))
    assert (read_log_folder(tmp_path).zxids, read_log_folder(tmp_path).unread) == ([], [])


def test_txn_log_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    assert read_log_folder(tmp_path).problems == [f"{tmp_path.name}: no transaction log"]


def test_txn_log_folder_names_its_snapshots(tmp_path: Path) -> None:
    (tmp_path / "log.1").write_bytes(txn_log([transaction(1, 1, create_body("/a", ""))]))
    for name in ("snapshot.0", "snapshot.1000000a", "snapshot.b.gz", "snapshot.tmp", "snapshots"):
        (tmp_path / name).touch()
    assert read_log_folder(tmp_path).snapshots == [0, 0xB, 0x1000000A]


@pytest.mark.parametrize(
    ("text", "epoch"), [("2", 2), ("12\n", 12), ("", None), ("-1", None), ("x", None), (None, None)]
)
def test_txn_log_folder_names_the_epoch_of_its_server(tmp_path: Path, text: str | None, epoch: int | None) -> None:
    (tmp_path / "acceptedEpoch").write_text("9")
    if text is not None:
        (tmp_path / "currentEpoch").write_text(text)
    assert read_log_folder(tmp_path).epoch == epoch


@pytest.mark.parametrize(
    ("zxids", "whole"),
    [
        ([1, 2, 3], True),
        ([1, 2, (1 << 32) + 1, (1 << 32) + 2], True),
        ([(1 << 32) + 0, (1 << 32) + 1], True),
        ([2, 3], False),
        ([1, 2, 4], False),
        ([1, (1 << 32) + 2], False),
    ],
)
def test_zxids_count_from_one_in_each_epoch(zxids: list[int], whole: bool) -> None:
    assert (not gaps(zxids)) == whole
