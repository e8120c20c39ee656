"""Recovery and damage: what is cut, what is reported, what is derived again, what is not believed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.model.log_errors import CorruptLog
from tests.property.log.log_tools import (
    TP,
    Clock,
    append_values,
    fetch,
    folder,
    kill,
    open_log,
    open_store,
    read_all,
)
from tests.support.flipped import flip

pytestmark = pytest.mark.guarantee("L6")


def test_recovery_valid_batches_behind_the_bad_one_are_reported_as_damage(path: str) -> None:
    store = open_store(path, Clock(), {})
    append_values(store, range(10))
    kill(store)
    size = os.path.getsize(f"{path}/t-0/{0:020d}.log") // 10
    with open(f"{path}/t-0/{0:020d}.log", "r+b") as file:
        file.seek(4 * size + 70)
        file.write(b"\xff")
    store = open_store(path, Clock(), {})
    (report,) = store.reports
    assert (report.leo, report.cut_bytes, report.corrupt_middle, report.clean) == (4, 6 * size, True, False)
    assert "CRC32C" in report.reason
    kill(store)


def test_log_that_is_corrupt_can_still_be_emptied_for_its_restoration(path: str) -> None:
    store = open_store(path, Clock())
    append_values(store, range(40))
    store.close(clean=True)
    for name in os.listdir(f"{path}/t-0"):
        if name.endswith(".log") and int(name[:20]) < 20:
            Path(path, "t-0", name).write_bytes(b"\xff" * os.path.getsize(f"{path}/t-0/{name}"))
    store = open_store(path, Clock())
    log = open_log(store)
    with pytest.raises(CorruptLog, match=f"^{TP}: .*magic -1"):
        fetch(log, 3)
    log.truncate_fully_and_start_at(0)
    append_values(store, range(3))
    assert len(read_all(log)) == 3
    kill(store)


def test_recovery_torn_tail_is_no_damage(path: str) -> None:
    store = open_store(path, Clock(), {})
    append_values(store, range(10))
    kill(store)
    name = f"{path}/t-0/{0:020d}.log"
    os.truncate(name, os.path.getsize(name) - 5)
    store = open_store(path, Clock(), {})
    (report,) = store.reports
    assert (report.leo, report.corrupt_middle) == (9, False)
    kill(store)


def test_recovery_missing_segment_leaves_no_hole(path: str) -> None:
    store = open_store(path, Clock())
    append_values(store, range(40))
    bases = open_log(store).segment_base_offsets
    kill(store)
    os.unlink(f"{path}/t-0/{bases[2]:020d}.log")
    store = open_store(path, Clock())
    (report,) = store.reports
    assert (report.leo, report.segments_removed) == (bases[2], len(bases) - 3)
    assert len(read_all(open_log(store))) == bases[2]
    kill(store)


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "{:020d}.index", "{:020d}.timeindex"])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("content", [None, b"", b"\0" * 24, b"garbage"])
def test_recovery_derived_file_lost_or_garbled_is_derived_again(
    path: str, name: str, clean: bool, content: bytes | None
) -> None:
    store = open_store(path, Clock())
    append_values(store, range(20), epoch=2)
    append_values(store, range(20, 40), epoch=5)
    epochs = open_log(store).epochs
    rows = read_all(open_log(store))
    if clean:
        store.close(clean=True)
    else:
        kill(store)
    bases = sorted(int(entry[:20]) for entry in os.listdir(f"{path}/t-0") if entry.endswith(".log"))
    for base in bases:
        victim = Path(path, "t-0", name.format(base))
        if content is None:
            victim.unlink(missing_ok=True)
        else:
            victim.write_bytes(content)
    store = open_store(path, Clock())
    log = open_log(store)
    assert log.epochs == epochs
    assert read_all(log) == rows
    found = log.offset_for_timestamp(1017, 40)
    assert found == (1017, 17, 2)
    kill(store)


@pytest.mark.parametrize("byte", [b"-", b"+", b"_", b" ", b"x"])
def test_one_byte_that_is_no_digit_in_the_epoch_file_stops_no_start_and_moves_no_epoch(byte: bytes) -> None:
    with folder() as path:
        store = open_store(path, Clock(), {})
        append_values(store, range(100), epoch=2)
        append_values(store, range(100, 110), epoch=15)
        append_values(store, range(110, 120), epoch=16)
        epochs = open_log(store).epochs
        store.close(clean=True)
        file = Path(path, str(TP), "leader-epoch-checkpoint")
        whole = file.read_bytes()
        for at in range(len(whole)):
            file.write_bytes(whole[:at] + byte + whole[at + 1 :])
            store = open_store(path, Clock(), {})
            assert open_log(store).epochs == epochs, file.read_bytes()
            store.close(clean=True)
        assert file.read_bytes() == whole


def test_index_entry_that_names_a_later_batch_is_not_believed(path: str) -> None:
    config = {"index.interval.bytes": "100"}
    store = open_store(path, Clock(), config)
    append_values(store, range(30))
    rows = read_all(open_log(store))
    store.close(clean=True)
    name = Path(path, "t-0", f"{0:020d}.index")
    entries = bytearray(name.read_bytes())
    # The second entry's offset with the fourth one's position: a batch stands there, but not that one.
    entries[12:16] = entries[28:32]
    name.write_bytes(entries)
    store = open_store(path, Clock(), config)
    for offset in range(30):
        assert fetch(open_log(store), offset, 1) == rows[offset]
    kill(store)


def test_store_watermark_checkpoint_does_not_outlive_a_recovery_that_cut_below_it(path: str) -> None:
    store = open_store(path, Clock(), {})
    append_values(store, range(10))
    store.checkpoint_high_watermarks({TP: 9})
    kill(store)
    name = f"{path}/t-0/{0:020d}.log"
    os.truncate(name, os.path.getsize(name) // 2)
    store = open_store(path, Clock(), {})
    assert store.high_watermarks() == {TP: 5}
    append_values(store, range(20, 30), epoch=2)
    kill(store)
    store = open_store(path, Clock(), {})
    assert store.high_watermarks() == {TP: 5}
    kill(store)


@pytest.mark.parametrize("clean", [True, False])
def test_batch_that_claims_offsets_of_the_next_segment_is_damage_not_the_end(path: str, clean: bool) -> None:
    store = open_store(path, Clock())
    append_values(store, range(40))
    base = open_log(store).segment_base_offsets[2]
    open_log(store).flush()
    store.checkpoint_recovery_points()
    if clean:
        store.close(clean=True)
    else:
        kill(store)
    # A high byte of the batch's last offset delta.
    flip(Path(path, "t-0", f"{base:020d}.log"), 24)
    store = open_store(path, Clock())
    with pytest.raises(CorruptLog, match="comes next"):
        fetch(open_log(store), base)
    kill(store)


def test_clean_start_believes_no_damaged_last_batch(path: str) -> None:
    store = open_store(path, Clock(), {})
    append_values(store, range(10))
    store.close(clean=True)
    name = Path(path, "t-0", f"{0:020d}.log")
    flip(name, name.stat().st_size * 9 // 10 + 24)
    store = open_store(path, Clock(), {})
    (report,) = store.reports
    assert (report.leo, report.clean) == (9, False)
    kill(store)
