"""Apache Kafka's own DumpLogSegments reads segments and indexes of this broker and finds no mismatch in them."""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path

import pytest

from broker.log.cleaner.batches import DELETE_HORIZON_BIT
from broker.wire.batch_rewriting import with_codec
from broker.wire.compression import Compression
from broker.wire.record_batch import read_header
from broker.wire.records import NewRecord, encode_batch
from tests.property.log.compaction_tools import COMPACTED, cleaner_for, headers_of, keyed
from tests.property.log.log_tools import TP, Clock, batch, kill, open_log, open_store

pytestmark = [pytest.mark.nightly, pytest.mark.guarantee("L1")]

_BATCHES = 1500
_HOLE = re.compile(r" +\d+ is followed by \d+")


def _dump(classpath: str, home: Path) -> str:
    files = sorted(str(file) for file in home.iterdir() if file.suffix in (".log", ".index", ".timeindex"))
    tool = ["java", "-cp", classpath, "kafka.tools.DumpLogSegments", "--deep-iteration", "--files", ",".join(files)]
    done = subprocess.run(tool, capture_output=True, text=True, timeout=120, check=True)
    # Mismatches are reported on stderr.
    return done.stdout + done.stderr


def _mismatches(output: str) -> list[str]:
    known = ("baseOffset:", "|", "offset:", "timestamp:", "Dumping ", "Log starting offset:", "log4j:")
    return [line for line in output.splitlines() if line and not line.startswith(known)]


def _fill(path: str, clean: bool) -> Path:
    chance = random.Random(3)
    store = open_store(path, Clock(), {"segment.bytes": "100000"})
    log = open_log(store)
    for value in range(_BATCHES):
        timestamp = 1000 + value + chance.randint(-50, 50)
        log.append_as_leader(batch(value, 1 + value % 5, timestamp, chance.randint(0, 300)), value // 400)
        if value % 7 == 0:
            log.write()
    log.write()
    if clean:
        store.close(clean=True)
    else:
        kill(store)
        open_store(path, Clock()).close(clean=True)
    return Path(path, str(TP))


@pytest.mark.parametrize("clean", [True, False])
def test_kafka_dumps_a_log_without_mismatch(tmp_path: Path, classpath: str, clean: bool) -> None:
    output = _dump(classpath, _fill(str(tmp_path / "data"), clean))
    assert output.count("isvalid: true") == _BATCHES
    assert _mismatches(output) == []


def test_kafka_dumps_a_cleaned_log_without_mismatch(tmp_path: Path, classpath: str) -> None:
    chance = random.Random(5)
    clock = Clock(now=1e12)
    config = COMPACTED | {"segment.bytes": "30000", "index.interval.bytes": "1000"}
    store = open_store(str(tmp_path / "data"), clock, config)
    log = open_log(store)
    for n in range(1200):
        records = [(b"k%d" % chance.randrange(200), None if chance.random() < 0.2 else b"v" * 40) for _ in range(3)]
        producer = {"producer_id": n % 3, "producer_epoch": 0, "base_sequence": n // 3 * 3}
        codec = (Compression.NONE, Compression.GZIP, Compression.ZSTD)[n % 3]
        log.append_as_leader(keyed(records, int(clock.now) + n, codec, **producer), n // 400)
        log.write()
    bench = cleaner_for(store, clock)
    last = max(header.last_offset for header in headers_of(log) if header.last_offset < log.segment_base_offsets[-1])
    bench.replicas.producers = {0: 299, last // 3 % 3: last}
    bench.cleaner.check()
    kept = headers_of(log)
    store.close(clean=True)
    assert len(kept) < 800
    empty = [header for header in kept if header.record_count == 0]
    assert empty, "a header without records is part of what is shown"
    assert any(header.attributes & DELETE_HORIZON_BIT for header in kept)
    output = _dump(classpath, Path(tmp_path / "data", str(TP)))
    assert output.count("isvalid: true") == len(kept)
    assert output.count("deleteHorizonMs: OptionalLong[1000000001000]") == sum(
        bool(header.attributes & DELETE_HORIZON_BIT) for header in kept
    )
    # What the tool says of Kafka's own cleaned logs too: holes, empty indexes, and that a header without records, whose
    # maximal timestamp is indexed all the same, holds no record with it.
    expected = ("Non-consecutive offsets in ", "Found timestamp mismatch in ")
    rest = [line for line in _mismatches(output) if not line.startswith(expected) and not line.endswith(" is empty.")]
    assert all(_HOLE.fullmatch(line) or line.endswith("log timestamp: -1") for line in rest), rest
    assert sum("log timestamp: -1" in line for line in rest) <= len(empty)


def test_kafka_reads_batches_in_every_codec_that_a_leader_may_have_rewritten_them_to(
    tmp_path: Path, classpath: str
) -> None:
    store = open_store(str(tmp_path / "data"), Clock(), {"segment.bytes": "100000"})
    log = open_log(store)
    records = 0
    levels = {Compression.GZIP: (None, 1, 9), Compression.LZ4: (None, 1, 12, 17), Compression.ZSTD: (None, -7, 19)}
    for source in Compression:
        for target in Compression:
            for level in levels.get(target, (None,)):
                new = [NewRecord(b"k%d" % n, b"value-%d" % n * 900) for n in range(50)]
                sent = memoryview(bytearray(encode_batch(new, timestamps=1000 + records, compression=source)))
                header, batch = with_codec(read_header(sent), sent, target, level, 1 << 26)
                log.append_as_leader(batch, 0, header)
                records += 50
                header, batch = with_codec(read_header(sent), sent, target, level, 1 << 26, 1000 + records)
                log.append_as_leader(batch, 0, header)
                records += 50
                log.write()
    store.close(clean=True)
    output = _dump(classpath, Path(tmp_path / "data", str(TP)))
    assert output.count("isvalid: true") == records // 50
    assert output.count("| offset: ") == records
    # A segment of one batch has no index entry.
    assert [line for line in _mismatches(output) if not line.endswith(" is empty.")] == []


def test_kafka_sees_an_index_entry_that_lies(tmp_path: Path, classpath: str) -> None:
    home = _fill(str(tmp_path / "data"), clean=True)
    with open(home / f"{0:020d}.index", "r+b") as file:
        file.seek(8)
        entry = file.read(4)
        file.seek(8)
        file.write((int.from_bytes(entry, "big") + 1).to_bytes(4, "big"))
    assert _mismatches(_dump(classpath, home))
