"""`highwater-dump-log` over damaged indexes: entries that lie, do not rise, or belong to no batch."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.integration.log.dumped_segment import MAGIC_AT, name, positions, put
from tests.support.dump import dump

pytestmark = pytest.mark.guarantee("L1")


def test_index_of_no_multiple_of_its_entries_is_named_and_dumped(home: Path) -> None:
    for suffix, size in ((".index", 8), (".timeindex", 12)):
        index = home / name(suffix)
        before = dump(index).out
        whole = index.stat().st_size
        index.write_bytes(index.read_bytes() + b"\x01\x02\x03")
        said = dump(index)
        assert (said.code, said.out) == (1, before)
        assert said.err == [
            f"{index}: at position {whole}: {whole + 3} bytes, which is no multiple of the {size} of an entry"
        ]


def test_index_entry_that_lies_is_a_mismatch_as_in_kafkas_tool(home: Path) -> None:
    index = home / name(".index")
    first = struct.unpack(">ii", index.read_bytes()[:8])
    put(index, 0, struct.pack(">ii", first[0] - 1, first[1]))
    said = dump(index)
    assert said.code == 1
    assert said.err == [f"Mismatches in :{index}", f"  Index offset: {first[0] - 1}, log offset: {first[0]}"]
    assert said.out[1] == f"offset: {first[0] - 1} position: {first[1]}"


def test_index_entry_that_points_to_no_batch_is_named(home: Path) -> None:
    index, log = home / name(".index"), home / name(".log")
    size = log.stat().st_size
    entries = list(struct.iter_unpack(">ii", index.read_bytes()))
    put(index, 8 * len(entries) - 4, struct.pack(">i", size + 9))
    said = dump(index)
    assert (said.code, len(said.err)) == (1, 1)
    assert said.err[0] == (
        f"{index}: at position {8 * len(entries) - 8}: no batch where offset {entries[-1][0]} points: "
        f"at position {size + 9}: the log has {size} bytes"
    )
    assert "fails" not in said.out[-1]
    said = dump(index, "--index-sanity-check")
    assert said.code == 1
    assert f"its last entry points to position {size + 9} of a log of {size} bytes; a broker makes" in said.err[0]


def test_index_entries_that_do_not_rise_are_named(home: Path) -> None:
    index = home / name(".index")
    data = index.read_bytes()
    first, second = struct.unpack(">ii", data[:8]), struct.unpack(">ii", data[8:16])
    index.write_bytes(data[8:16] + data[:8] + data[16:])
    said = dump(index)
    assert said.code == 1
    assert said.err == [
        f"{index}: at position 8: an entry after offset {second[0]}, position {second[1]} must be above it in both"
    ]
    assert said.out[1:3] == [f"offset: {a} position: {b}" for a, b in (second, first)]


def test_index_entries_behind_unused_room_are_named(home: Path) -> None:
    index = home / name(".index")
    data = index.read_bytes()
    index.write_bytes(data[:16] + bytes(40_000) + data[16:])
    said = dump(index)
    assert said.code == 1
    assert said.err == [f"{index}: at position 16: zeros, with entries again from position 40016 on"]


def test_index_without_its_log_is_printed_and_named(home: Path) -> None:
    log = home / name(".log")
    log.unlink()
    for suffix in (".index", ".timeindex"):
        index = home / name(suffix)
        said = dump(index)
        assert said.code == 1
        assert said.err == [f"{index}: cannot be checked against {log}: No such file or directory"]
        assert len(said.out) > 2


def test_time_index_that_lies_is_printed_in_the_lines_of_kafkas_tool(home: Path) -> None:
    index = home / name(".timeindex")
    entries = list(struct.iter_unpack(">qi", index.read_bytes()))
    entries[0] = (entries[0][0] + 1, entries[0][1])
    entries[2] = (entries[2][0], entries[2][1] - 1)
    entries[3] = (entries[1][0], entries[3][1])
    index.write_bytes(b"".join(struct.pack(">qi", *entry) for entry in entries))
    said = dump(index)
    assert said.code == 1
    assert said.err == [
        f"Found timestamp mismatch in :{index}",
        f"  Index timestamp: {entries[0][0]}, log timestamp: {entries[0][0] - 1}",
        f"  Index timestamp: {entries[3][0]}, log timestamp: {1000 + entries[3][1] // 3}",
        f"Found out of order timestamp in :{index}",
        f"  Index timestamp: {entries[3][0]}, Previously indexed timestamp: {entries[2][0]}",
        "The following indexed offsets are not found in the log.",
        f"Indexed offset: {entries[2][1]}, found log offset: {entries[2][1] + 1}",
    ]


def test_time_index_with_offsets_beyond_the_log_or_going_back_is_reported(home: Path) -> None:
    index = home / name(".timeindex")
    entries = list(struct.iter_unpack(">qi", index.read_bytes()))
    back = entries[3][1]
    entries[3] = (entries[3][0], entries[0][1])
    entries[-1] = (entries[-1][0], 9000)
    index.write_bytes(b"".join(struct.pack(">qi", *entry) for entry in entries))
    said = dump(index)
    assert said.code == 1
    assert back > entries[2][1]
    assert said.err == [
        f"{index}: at position 36: offset {entries[0][1]} after {entries[2][1]}, must rise",
        "The following indexed offsets are not found in the log.",
        "Indexed offset: 9000, found log offset: -1",
    ]
    said = dump(index, "--index-sanity-check")
    assert said.code == 0, "first and last rise, which is all that a start looks at"
    entries[-1] = (0, 3)
    index.write_bytes(b"".join(struct.pack(">qi", *entry) for entry in entries))
    assert "its entries do not rise from timestamp" in dump(index, "--index-sanity-check").err[0]


def test_time_index_of_a_damaged_log_says_from_where_it_is_not_checked(home: Path) -> None:
    log, index = home / name(".log"), home / name(".timeindex")
    place = positions(log)[30]
    put(log, place + MAGIC_AT, b"\x09")
    said = dump(index)
    assert said.code == 1
    (told,) = said.err
    assert f" on, the log is damaged: at position {place}: magic 9, only 2 is stored" in told
    assert len(said.out) == 1 + index.stat().st_size // 12
