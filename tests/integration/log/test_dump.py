"""`highwater-dump-log` over files of our own store: every field, every kind of file, and nothing wrong with any."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from broker.log.files import checkpoints
from broker.log.files.cleaner_offsets import CLEANER_OFFSETS
from broker.log.indexes.time_index import pack_entry
from broker.model.ids import TopicPartition
from broker.wire.batch_rewriting import with_append_time
from broker.wire.compression import Compression
from broker.wire.record_batch import iter_batches, read_header, stamp
from broker.wire.records import NewRecord, encode_batch
from tests.property.log.compaction_tools import COMPACTED, cleaner_for, headers_of, keyed
from tests.property.log.log_tools import TOPIC_ID, TP, Clock, kill, open_log, open_store
from tests.support.disk_cluster import DiskCluster
from tests.support.dump import dump, segment_files

pytestmark = pytest.mark.guarantee("L1")

SIZES = {"segment.bytes": "8000", "index.interval.bytes": "500"}


def _fill(path: str, codecs: tuple[Compression, ...] = tuple(Compression)) -> Path:
    store = open_store(path, Clock(), SIZES)
    log = open_log(store)
    offset = 0
    for n in range(150):
        count = 1 + n % 3
        new = [NewRecord(b"k%d" % n, b"v%d" % n * (n % 40), [("h", b"x")]) for _ in range(count)]
        producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 2, "base_sequence": offset}
        data = encode_batch(new, timestamps=1000 + n, compression=codecs[n % len(codecs)], **producer)
        log.append_as_leader(memoryview(bytearray(data)), n // 50)
        log.write()
        offset += count
    store.close(clean=True)
    return Path(path, str(TP))


def test_dump_of_a_log_says_every_field_of_every_batch_and_finds_nothing_wrong(path: str) -> None:
    home = _fill(path)
    said = dump(segment_files(home))
    assert (said.code, said.err) == (0, [])
    expected = []
    for file in segment_files(home, ".log"):
        for position, header in iter_batches(memoryview(file.read_bytes()), verify_crc=True):
            expected.append(
                {
                    "baseOffset": header.base_offset,
                    "lastOffset": header.last_offset,
                    "count": header.record_count,
                    "baseSequence": header.base_sequence,
                    "lastSequence": header.last_sequence,
                    "producerId": 7,
                    "producerEpoch": 2,
                    "partitionLeaderEpoch": header.partition_leader_epoch,
                    "isTransactional": "false",
                    "isControl": "false",
                    "deleteHorizonMs": "OptionalLong.empty",
                    "position": position,
                    "CreateTime": header.max_timestamp,
                    "size": header.size,
                    "magic": 2,
                    "compresscodec": Compression(header.compression).name.lower(),
                    "crc": header.crc,
                    "isvalid": "true",
                }
            )
    assert len(expected) == 150
    assert said.batches == [{name: str(value) for name, value in line.items()} for line in expected]
    assert not said.records
    files = segment_files(home)
    assert [line for line in said.out if line.startswith("Dumping ")] == [f"Dumping {file}" for file in files]
    starts = [int(file.stem) for file in segment_files(home, ".log")]
    assert len(starts) > 2
    assert [line for line in said.out if line.startswith("Log s")] == [f"Log starting offset: {s}" for s in starts]


@pytest.mark.parametrize("codec", list(Compression))
def test_dump_deep_has_each_record_of_each_codec(path: str, codec: Compression) -> None:
    home = _fill(path, (codec,))
    shallow = dump(segment_files(home, ".log"))
    assert {line["compresscodec"] for line in shallow.batches} == {codec.name.lower()}
    deep = dump(segment_files(home, ".log"), "--deep-iteration")
    assert (deep.code, deep.err) == (0, [])
    assert [int(line["offset"]) for line in deep.records] == list(range(300))
    assert not any("payload" in line or "key" in line for line in deep.records)
    printed = dump(segment_files(home, ".log"), "--print-data-log")
    assert printed.records[6]["key"] == "k3"
    assert [line.get("payload", "") for line in printed.records if line["key"] == "k3"] == ["v3" * 3]
    assert printed.batches == deep.batches == shallow.batches
    bare = dump(segment_files(home, ".log"), "--print-data-log", "--skip-record-metadata")
    assert bare.records[6] == {"key": "k3", "payload": "v3v3v3"}


def test_dump_with_decoders_prints_numbers_as_such(path: str) -> None:
    store = open_store(path, Clock(), SIZES)
    log = open_log(store)
    new = [NewRecord(struct.pack(">i", -5), struct.pack(">q", 1 << 40)), NewRecord(None, None)]
    log.append_as_leader(memoryview(bytearray(encode_batch(new, timestamps=1))), 0)
    log.write()
    store.close(clean=True)
    decoders = ("--key-decoder-class", "IntegerDecoder", "--value-decoder-class", "kafka.serializer.LongDecoder")
    first, second = dump(segment_files(Path(path, str(TP)), ".log"), *decoders).records
    assert (first["key"], first["payload"]) == ("-5", str(1 << 40))
    assert (second["keySize"], second["valueSize"]) == ("-1", "-1")


def test_dump_of_append_time_says_so_for_batch_and_records(path: str) -> None:
    store = open_store(path, Clock(), SIZES)
    log = open_log(store)
    sent = memoryview(bytearray(encode_batch([NewRecord(b"k", b"v")] * 2, timestamps=5)))
    log.append_as_leader(sent, 0, with_append_time(read_header(sent), sent, 777))
    log.write()
    store.close(clean=True)
    said = dump(segment_files(Path(path, str(TP))), "--deep-iteration")
    assert said.code == 0, said.err
    assert [line["LogAppendTime"] for line in said.batches + said.records] == ["777"] * 3


def test_dump_of_indexes_is_their_entries_against_their_log(path: str) -> None:
    home = _fill(path)
    for file in segment_files(home, ".index"):
        base, data = int(file.stem), file.read_bytes()
        entries = [f"offset: {base + relative} position: {at}" for relative, at in struct.iter_unpack(">ii", data)]
        assert dump(file).out == [f"Dumping {file}", *entries]
    for file in segment_files(home, ".timeindex"):
        base, data = int(file.stem), file.read_bytes()
        entries = [f"timestamp: {time} offset: {base + relative}" for time, relative in struct.iter_unpack(">qi", data)]
        assert dump(file).out == [f"Dumping {file}", *entries]
    indexes = segment_files(home, ".index", ".timeindex")
    verified = dump(indexes, "--verify-index-only")
    assert (verified.code, verified.err, len(verified.out)) == (0, [], len(indexes))
    sane = dump(indexes, "--index-sanity-check")
    assert (sane.code, sane.err) == (0, [])
    assert [line for line in sane.out if not line.startswith("Dumping ")] == [
        f"{file} passed sanity check." for file in indexes
    ]


def test_dump_of_an_empty_index_says_so(path: str) -> None:
    store = open_store(path, Clock(), SIZES)
    open_log(store)
    kill(store)
    files = segment_files(Path(path, str(TP)), ".log", ".index", ".timeindex")
    said = dump(files)
    assert (said.code, said.err) == (0, [])
    assert [line for line in said.out if not line.startswith("Dumping ")] == [
        f"{files[0]} is empty.",
        "Log starting offset: 0",
    ]


def test_dump_of_room_that_kafka_takes_in_advance_is_the_entries_before_it(path: str) -> None:
    home = _fill(path)
    for file in (segment_files(home, ".index")[0], segment_files(home, ".timeindex")[0]):
        before = dump(file).out
        file.write_bytes(file.read_bytes() + bytes(120_000))
        for options in ((), ("--index-sanity-check",)):
            assert dump(file, *options).code == 0
        assert dump(file).out == before
        file.write_bytes(bytes(120_000))
        assert dump(file).out[1:] == ([f"{file} is empty."] if file.suffix == ".index" else [])


def test_dump_of_a_cleaned_log_finds_holes_and_nothing_wrong(path: str) -> None:
    chance = random.Random(5)
    clock = Clock(now=1e12)
    store = open_store(path, clock, COMPACTED | {"segment.bytes": "6000", "index.interval.bytes": "300"})
    log = open_log(store)
    for n in range(300):
        records = [(b"k%d" % chance.randrange(50), b"v" * 40 if n % 7 else None)]
        producer: dict[str, Any] = {"producer_id": n % 3, "producer_epoch": 0, "base_sequence": n // 3}
        codec = (Compression.NONE, Compression.GZIP, Compression.ZSTD)[n % 3]
        log.append_as_leader(keyed(records, int(clock.now) + n, codec, **producer), n // 100)
        log.write()
    bench = cleaner_for(store, clock)
    bench.replicas.producers = {0: 198}
    bench.cleaner.check()
    kept = headers_of(log)
    store.close(clean=True)
    assert any(header.record_count == 0 for header in kept), "a header without records is part of what is shown"
    said = dump(segment_files(Path(path, str(TP))), "--deep-iteration")
    assert said.code == 0, said.err
    assert [int(line["baseOffset"]) for line in said.batches] == [header.base_offset for header in kept]
    assert "OptionalLong[1000000001000]" in {line["deleteHorizonMs"] for line in said.batches}
    assert said.err[0].startswith("Non-consecutive offsets in ")
    holes = [line for line in said.err if not line.startswith("Non-consecutive offsets in ")]
    assert holes
    assert all(" is followed by " in line for line in holes)


def test_dump_of_a_replicas_folder_reads_snapshots_and_checkpoints(tmp_path: Path) -> None:
    cluster = DiskCluster(tmp_path, settings={"min.insync.replicas": "1"})
    cluster.settle()
    for n in range(40):
        producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 2, "base_sequence": n}
        data = encode_batch([NewRecord(b"k", b"v" * 100)], timestamps=1000 + n, **producer)
        cluster.produce_raw(1, memoryview(bytearray(data)))
        cluster.settle()
    cluster.advance(10_000)
    cluster.stop(1)
    home = cluster.folder_of(1)
    snapshots = segment_files(home, ".snapshot")
    said = dump([*segment_files(home), home / checkpoints.LEADER_EPOCHS, home / checkpoints.PARTITION_METADATA])
    assert (said.code, said.err) == (0, [])
    ends = [int(file.stem) for file in snapshots]
    assert ends[-1] == 40
    producers = [line for line in said.out if line.startswith("producerId: ")]
    assert len(producers) == len(ends)
    assert producers[-1].startswith(
        "producerId: 7 producerEpoch: 2 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty lastTimestamp: "
    )
    assert " firstSequence: 39 lastSequence: 39 lastOffset: 39 offsetDelta: 0 timestamp: " in producers[-1]
    assert "epoch: 0 startOffset: 0" in said.out
    assert said.out[-1].startswith("version: 0 topicId: ")
    said = dump([home.parent / checkpoints.RECOVERY_POINTS, home.parent / checkpoints.HIGH_WATERMARKS])
    assert said.code == 0
    assert [line.partition(" partition")[2] for line in said.out if line.startswith("topic: ")] == [
        ": 0 offset: 40"
    ] * 2
    cluster.close()


def test_dump_of_other_checkpoints_and_transactions(tmp_path: Path) -> None:
    for name in (checkpoints.LOG_STARTS, CLEANER_OFFSETS):
        (tmp_path / name).write_text(checkpoints.format_offsets({TopicPartition("a", 1): 2, TopicPartition("b", 0): 9}))
    aborted = tmp_path / f"{0:020d}.txnindex"
    aborted.write_bytes(struct.pack(">hqqqq", 0, 7, 10, 20, 8) + struct.pack(">hqqqq", 0, 8, 11, 30, 21))
    said = dump([tmp_path / checkpoints.LOG_STARTS, tmp_path / CLEANER_OFFSETS, aborted])
    assert (said.code, said.err) == (0, [])
    lines = ["topic: a partition: 1 offset: 2", "topic: b partition: 0 offset: 9"]
    assert said.out == [
        f"Dumping {tmp_path / checkpoints.LOG_STARTS}",
        *lines,
        f"Dumping {tmp_path / CLEANER_OFFSETS}",
        *lines,
        f"Dumping {aborted}",
        "version: 0 producerId: 7 firstOffset: 10 lastOffset: 20 lastStableOffset: 8",
        "version: 0 producerId: 8 firstOffset: 11 lastOffset: 30 lastStableOffset: 21",
    ]


def test_index_entry_for_several_batches_appended_at_once_is_reported_and_not_wrong(path: str) -> None:
    home = _fill(path)
    log, index = segment_files(home, ".log")[0], segment_files(home, ".index")[0]
    (relative, position), *_ = struct.iter_unpack(">ii", index.read_bytes())
    batches = [header for _, header in iter_batches(memoryview(log.read_bytes()), verify_crc=True)]
    behind = next(header for header in batches if header.base_offset == relative + 1)
    index.write_bytes(struct.pack(">ii", behind.last_offset, position) + index.read_bytes()[8:])
    said = dump(index)
    mismatch = f"  Index offset: {behind.last_offset}, log offset: {relative}"
    assert (said.code, said.err) == (0, [f"Mismatches in :{index}", mismatch])
    # An offset at which no batch ends is one that nobody wrote.
    inside = next(header for header in batches if header.base_offset > relative and header.record_count == 3)
    index.write_bytes(struct.pack(">ii", inside.base_offset + 1, position) + index.read_bytes()[8:])
    assert dump(index).code == 1


def test_dump_reads_no_more_than_max_bytes(path: str) -> None:
    home = _fill(path)
    log = segment_files(home, ".log")[0]
    everything = dump(log).batches
    second = int(everything[2]["position"])
    for limit in (second, second + 1, second + 60, int(everything[3]["position"]) - 1):
        said = dump(log, "--max-bytes", str(limit))
        assert (said.code, said.err) == (0, [])
        assert said.batches == everything[:2], limit
    assert dump(log, "--max-bytes", "2147483647").batches == everything


@pytest.mark.parametrize("options", [(), ("--deep-iteration",), ("--verify-index-only",)])
def test_dump_of_a_large_segment_takes_bounded_memory(tmp_path: Path, options: tuple[str, ...]) -> None:
    log = tmp_path / f"{0:020d}.log"
    large = bytearray(encode_batch([NewRecord(None, bytes(1 << 20))], timestamps=5))
    with log.open("wb") as file:
        for offset in range(100):
            stamp(memoryview(large), 0, offset, 0)
            file.write(large)
    time_index = tmp_path / f"{0:020d}.timeindex"
    time_index.write_bytes(b"".join(pack_entry(5 + n, n) for n in range(20_000)))
    tracemalloc.start()
    try:
        said = dump([log, time_index] if options == ("--verify-index-only",) else log, *options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(said.batches) == 100
    assert peak < 12 << 20, f"{peak} bytes for a segment of {log.stat().st_size}"


def test_command_stops_quietly_when_nobody_reads_on(path: str) -> None:
    home = _fill(path)
    log = segment_files(home, ".log")[0]
    many = ",".join([str(log)] * 200)
    command = [sys.executable, "-m", "broker.dump.cli", "--files", many, "--print-data-log"]
    tool = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert tool.stdout is not None
    assert tool.stderr is not None
    with tool:
        assert tool.stdout.readline() == f"Dumping {log}\n"
        tool.stdout.close()
        said = tool.stderr.read()
    assert said == ""
    assert tool.returncode == 1


def test_command_whose_output_cannot_be_written_says_so(path: str) -> None:
    log = segment_files(_fill(path), ".log")[0]
    command = [sys.executable, "-m", "broker.dump.cli", "--files", f"{log},{path}"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "highwater-dump-log: the output cannot be written: No space left on device\n"


def test_command_writes_bytes_that_the_terminal_lacks_as_escapes(path: str) -> None:
    store = open_store(path, Clock(), SIZES)
    log = open_log(store)
    log.append_as_leader(memoryview(bytearray(encode_batch([NewRecord(b"\xff", "ö".encode())], timestamps=1))), 0)
    log.write()
    store.close(clean=True)
    command = [sys.executable, "-m", "broker.dump.cli", "--print-data-log", "--files"]
    log_file = segment_files(Path(path, str(TP)), ".log")[0]
    ascii_only = {"PYTHONIOENCODING": "ascii", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([*command, str(log_file)], capture_output=True, text=True, env=ascii_only, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("key: \\ufffd payload: \\xf6\n")


def test_topic_id_in_partition_metadata_is_reported(path: str) -> None:
    home = _fill(path)
    assert dump(home / checkpoints.PARTITION_METADATA).out[1:] == [f"version: 0 topicId: {TOPIC_ID}"]
