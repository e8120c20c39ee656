"""`highwater-dump-log` over damaged files: one clear line with file, position and what would be right; exit code 1."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.dump import log_dump, segment_reader
from broker.log.files import checkpoints
from broker.log.files.cleaner_offsets import CLEANER_OFFSETS
from broker.wire.compression import Compression
from broker.wire.record_batch import HEADER_SIZE, read_header, seal
from broker.wire.records import NewRecord, encode_batch
from tests.integration.log.dumped_segment import BATCHES, LENGTH_AT, MAGIC_AT, name, positions, put, shallow
from tests.support.dump import dump

pytestmark = pytest.mark.guarantee("L1")


def test_torn_tail_is_counted_and_named(home: Path) -> None:
    log = home / name(".log")
    size = log.stat().st_size
    last = positions(log)[-1]
    for cut in (size - 1, last + HEADER_SIZE, last + 20, last + 1):
        log.write_bytes(log.read_bytes()[:cut])
        said = dump(log)
        assert said.code == 1
        assert shallow(said) == list(range(0, 3 * BATCHES - 3, 3))
        assert said.out[-1] == f"Found {cut - last} invalid bytes at the end of {log.name}"
        left = cut - last
        why = f"batch of {size - last} bytes, {left} are left"
        if left < HEADER_SIZE:
            why = f"{left} bytes are too few for a batch header"
        assert said.err == [f"{log}: at position {last}: {why}; no valid batch was found behind"]


def test_zeros_at_the_end_are_called_so(home: Path) -> None:
    log = home / name(".log")
    size = log.stat().st_size
    log.write_bytes(log.read_bytes() + bytes(5000))
    said = dump(log)
    assert (said.code, len(said.batches)) == (1, BATCHES)
    assert said.out[-1] == f"Found 5000 invalid bytes at the end of {log.name}"
    assert said.err == [f"{log}: at position {size}: zeros where a batch is due; no valid batch was found behind"]


def test_flipped_bit_makes_a_batch_invalid_and_all_others_are_there(home: Path) -> None:
    log = home / name(".log")
    position = positions(log)[20]
    stored = read_header(memoryview(log.read_bytes()), position).crc
    put(log, position + 100, b"\xff")
    said = dump(log, "--deep-iteration")
    assert said.code == 1
    assert [line["isvalid"] for line in said.batches] == ["true"] * 20 + ["false"] + ["true"] * (BATCHES - 21)
    assert len(said.records) == 3 * BATCHES, "its records can still be read"
    assert len(said.err) == 1
    assert said.err[0].startswith(f"{log}: at position {position}: CRC32C is 0x")
    assert said.err[0].endswith(f", the header says {stored:#010x}")


@pytest.mark.parametrize("magic", [0, 1, 3, 255])
def test_magic_that_is_not_stored_is_skipped_with_the_place_of_what_follows(home: Path, magic: int) -> None:
    log = home / name(".log")
    places = positions(log)
    put(log, places[20] + MAGIC_AT, bytes([magic]))
    said = dump(log)
    assert said.code == 1
    assert shallow(said) == [3 * n for n in range(BATCHES) if n != 20]
    signed = magic - 256 if magic > 127 else magic
    assert said.err == [
        f"{log}: at position {places[20]}: magic {signed}, only 2 is stored; "
        f"the next valid batch is at position {places[21]}, offset 63"
    ]


@pytest.mark.parametrize("length", [-1, 0, 10, 48, 2**31 - 1])
def test_impossible_length_is_skipped_with_the_place_of_what_follows(home: Path, length: int) -> None:
    log = home / name(".log")
    places = positions(log)
    put(log, places[20] + LENGTH_AT, struct.pack(">i", length))
    said = dump(log)
    assert said.code == 1
    assert shallow(said) == [3 * n for n in range(BATCHES) if n != 20]
    (told,) = said.err
    assert told.startswith(f"{log}: at position {places[20]}: batch ")
    assert told.endswith(f"; the next valid batch is at position {places[21]}, offset 63")


@pytest.mark.parametrize("by", [-7, 3, 500, 2000])
def test_length_that_lies_hides_no_batch(home: Path, by: int) -> None:
    log = home / name(".log")
    places = positions(log)
    right = read_header(memoryview(log.read_bytes()), places[20]).batch_length
    put(log, places[20] + LENGTH_AT, struct.pack(">i", right + by))
    said = dump(log)
    assert said.code == 1
    valid = [int(line["baseOffset"]) for line in said.batches if line["isvalid"] == "true"]
    assert valid == [3 * n for n in range(BATCHES) if n != 20]
    assert any(f"at position {places[20]}: CRC32C" in line for line in said.err)
    assert any(f"the next valid batch is at position {places[21]}, offset 63" in line for line in said.err)


def test_length_that_lies_by_whole_batches_is_an_invalid_batch(home: Path) -> None:
    log = home / name(".log")
    places = positions(log)
    put(log, places[20] + LENGTH_AT, struct.pack(">i", places[23] - places[20] - 12))
    said = dump(log)
    assert said.code == 1
    assert [line["isvalid"] for line in said.batches].count("false") == 1


def test_offsets_that_go_back_are_named_though_every_crc_is_right(home: Path) -> None:
    log = home / name(".log")
    position = positions(log)[20]
    put(log, position, struct.pack(">q", 58))
    said = dump(log)
    assert said.code == 1
    assert said.err == [f"{log}: at position {position}: base offset 58, 60 or more is due"]
    assert len(said.batches) == BATCHES


def test_offset_too_large_for_its_segment_is_named_once_and_what_follows_it_once(home: Path) -> None:
    log = home / name(".log")
    position, following = positions(log)[20:22]
    put(log, position, struct.pack(">q", 1 << 40))
    said = dump(log)
    assert said.code == 1
    assert said.err == [
        f"{log}: at position {position}: last offset {(1 << 40) + 2}, {2**31 - 1} is the most in this segment",
        f"{log}: at position {following}: base offset 63, {(1 << 40) + 3} or more is due",
    ]
    assert len(said.batches) == BATCHES


def test_damage_without_end_is_given_up(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_reader, "_DAMAGES_MAX", 2)
    log = home / name(".log")
    places = positions(log)
    for place in places[10:40:10]:
        put(log, place + MAGIC_AT, b"\x07")
    said = dump(log)
    assert said.code == 1
    assert shallow(said) == [3 * n for n in range(30) if n not in (10, 20)]
    assert said.err[2] == (
        f"{log}: at position {places[30]}: magic 7, only 2 is stored; so much is damaged that the rest is left"
    )
    assert said.out[-1].startswith(f"Found {log.stat().st_size - places[30]} invalid bytes")


def test_segment_under_another_base_offset_is_named(home: Path) -> None:
    log = (home / name(".log")).rename(home / f"{50:020d}.log")
    said = dump(log)
    assert said.out[1] == "Log starting offset: 50"
    assert said.err[0] == f"{log}: at position 0: base offset 0, 50 or more is due"
    assert said.code == 1


def sealed(change: Callable[[bytearray], None], **options: int) -> bytes:
    """A batch changed behind its header, with a CRC that is right all the same."""
    codec = Compression(options.pop("codec", 0))
    batch = bytearray(encode_batch([NewRecord(b"key", b"value")] * 2, timestamps=1, compression=codec))
    change(batch)
    header = read_header(memoryview(batch))
    seal(header._replace(**options), memoryview(batch))
    return bytes(batch)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (sealed(lambda b: None, record_count=9), "bytes"),
        (sealed(lambda b: None, record_count=1), "records"),
        (sealed(lambda b: None, record_count=-1), "-1 records"),
        (sealed(lambda b: b.__setitem__(HEADER_SIZE, 0x7E)), "record"),
        (sealed(lambda b: b.__setitem__(HEADER_SIZE + 4, 0x7E)), "key"),
        (sealed(lambda b: b.__setitem__(slice(HEADER_SIZE, HEADER_SIZE + 8), b"no gzip!"), codec=1), "not gzip"),
        (sealed(lambda b: None, attributes=4), "not zstd"),
        (sealed(lambda b: None, attributes=6), "6 is not a valid Compression"),
    ],
)
def test_records_that_make_no_sense_are_named_by_batch(tmp_path: Path, data: bytes, why: str) -> None:
    log = tmp_path / name(".log")
    good = bytearray(encode_batch([NewRecord(b"k", b"v")], timestamps=1, base_offset=2))
    log.write_bytes(data + good)
    assert dump(log).code == 0, "its header and CRC are right"
    said = dump(log, "--print-data-log")
    assert said.code == 1
    told = said.err[0]
    assert told.startswith(f"{log}: at position 0: its records cannot be read: ")
    assert why in told
    assert said.records[-1]["key"] == "k", "it goes on"


def test_batch_too_large_to_be_opened_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_dump, "_OPENED_MAX", 150)
    said = dump(home / name(".log"), "--deep-iteration")
    assert (said.code, len(said.batches), said.records) == (1, BATCHES, [])
    assert said.err[0].endswith("is not opened, 150 are the most")


def test_codec_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / name(".log")
    log.write_bytes(encode_batch([NewRecord(b"k", b"v")], timestamps=1, compression=Compression.ZSTD))
    monkeypatch.setitem(__import__("sys").modules, "cramjam", None)
    assert dump(log).code == 0
    said = dump(log, "--deep-iteration")
    assert said.code == 1
    assert "zstd needs the package cramjam, which is not installed" in said.err[0]


def test_damaged_snapshot_is_named_with_the_reason(tmp_path: Path) -> None:
    snapshot = tmp_path / name(".snapshot")
    for data, why in (
        (b"", "0 bytes, a producer snapshot has 10 or more"),
        (struct.pack(">hIi", 1, 5, 0), "CRC32C is 0x48674bc7, the file says 0x00000005"),
        (struct.pack(">hIi", 7, 5, 0), "version 7, only 1 is known"),
        (struct.pack(">hIi", 1, 0x48674BC7, 0) + b"", ""),
    ):
        snapshot.write_bytes(data)
        said = dump(snapshot)
        if why:
            assert (said.code, said.err) == (1, [f"{snapshot}: is no producer snapshot: {why}"])
        else:
            assert (said.code, said.err) == (0, [])


def test_damaged_transaction_index_is_named_with_the_position(tmp_path: Path) -> None:
    index = tmp_path / name(".txnindex")
    entry = struct.pack(">hqqqq", 0, 7, 10, 20, 8)
    index.write_bytes(entry + entry[:9])
    assert dump(index).err == [f"{index}: at position 34: 9 bytes, an entry has 34"]
    index.write_bytes(entry + b"\0\x05" + entry[2:])
    said = dump(index)
    assert (said.code, len(said.out)) == (1, 2)
    assert said.err == [f"{index}: at position 34: version 5, only 0 is known"]


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        (checkpoints.LEADER_EPOCHS, "0\n2\n0 0\n", "promises 2 entries, holds 1"),
        (checkpoints.LEADER_EPOCHS, "0\n1\n0 x\n", "malformed line '0 x'"),
        (checkpoints.HIGH_WATERMARKS, "0\n1\nt 0 5", "its last line has no end: torn"),
        (checkpoints.RECOVERY_POINTS, "", "is empty"),
        (checkpoints.LOG_STARTS, "3\n0\n", "version '3', only 0 is known"),
        (CLEANER_OFFSETS, "0\n1\nt 0\n", "malformed line 't 0'"),
        (checkpoints.PARTITION_METADATA, "", "is empty, and should say the topic's id"),
        (checkpoints.PARTITION_METADATA, "\udcff", "is not text"),
        (checkpoints.PARTITION_METADATA, "version: 1\n", "expected 'version: 0' and 'topic_id: <22 of base64>'"),
    ],
)
def test_damaged_checkpoint_is_named_with_the_reason(tmp_path: Path, file: str, text: str, why: str) -> None:
    (tmp_path / file).write_bytes(text.encode("utf-8", "surrogateescape"))
    said = dump(tmp_path / file)
    assert said.code == 1
    (told,) = said.err
    assert told.startswith(f"{tmp_path / file}: {why}")


def test_files_that_cannot_be_read_are_named_and_the_others_follow(home: Path) -> None:
    folder, strange = home / f"{7:020d}.log", home / "meta.json"
    folder.mkdir()
    strange.write_text("{}")
    missing = [home / f"{9:020d}{suffix}" for suffix in (".log", ".index", ".timeindex", ".snapshot", ".txnindex")]
    # Whatever its name: that a name fits no file of a log is of no account where there is no file.
    missing += [home / checkpoints.RECOVERY_POINTS, home / "t-0", home / "9.log"]
    short = home / "7.log"
    short.write_bytes(b"")
    said = dump([*missing, folder, strange, short, home / name(".log")])
    assert said.code == 1
    assert said.err[:-3] == [f"{file}: does not exist" for file in missing]
    assert said.err[-3] == f"{folder}: cannot be read: Is a directory"
    for line, file in zip(said.err[-2:], (strange, short), strict=True):
        assert line.startswith(f"{file}: is left out: a name must be 20 digits with .log, .index, ")
    assert len(said.batches) == BATCHES


def test_snapshot_or_checkpoint_of_an_absurd_size_is_not_read(tmp_path: Path) -> None:
    for file in (tmp_path / name(".snapshot"), tmp_path / checkpoints.LEADER_EPOCHS):
        with file.open("wb") as sparse:
            sparse.truncate(1 << 40)
        said = dump(file)
        assert (said.code, said.err) == (1, [f"{file}: {1 << 40} bytes, more than {64 << 20} are not believed"])
