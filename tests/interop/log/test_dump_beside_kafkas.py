"""Our dump beside Apache Kafka's DumpLogSegments, line by line: over its files, over ours, and over damaged ones.

Kafka's files come from its classes (`KafkasFiles.java`) and from two real brokers with produced records of each codec,
transactions, and a compacted topic.
"""

from __future__ import annotations

import random
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.systems import Broker
from broker.log.files import checkpoints
from broker.log.files.cleaner_offsets import CLEANER_OFFSETS
from broker.wire.compression import Compression
from broker.wire.record_batch import iter_batches
from broker.wire.records import NewRecord, encode_batch
from tests.interop.log.test_kafkas_files import kafka as kafkas_program
from tests.property.log.compaction_tools import COMPACTED, cleaner_for, keyed
from tests.property.log.log_tools import TP, Clock, open_log, open_store
from tests.support.brokers import wait_until
from tests.support.disk_cluster import DiskCluster
from tests.support.dump import Dumped, dump, fields, segment_files
from tests.support.kafka_brokers import kafka_brokers

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600), pytest.mark.guarantee("L1")]

_EMPTY_HEADER = "log timestamp: -1"


def theirs(classpath: str, files: Sequence[Path], *options: str) -> Dumped:
    tool = ["java", "-cp", classpath, "kafka.tools.DumpLogSegments", *options, "--files", ",".join(map(str, files))]
    done = subprocess.run(tool, capture_output=True, text=True, timeout=300)
    err = [line for line in done.stderr.splitlines() if not line.startswith("log4j:")]
    return Dumped(done.returncode, done.stdout.splitlines(), err)


def both(classpath: str, files: Sequence[Path], *options: str) -> tuple[Dumped, Dumped]:
    """What ours and theirs say, which has to be the same on stdout."""
    ours, kafkas = dump(files, *options), theirs(classpath, files, *options)
    assert kafkas.code == 0, kafkas.err[-20:]
    assert len(kafkas.out) >= len(files)
    for our_line, their_line in zip(ours.out, kafkas.out, strict=False):
        assert our_line == their_line
    assert len(ours.out) == len(kafkas.out)
    return ours, kafkas


def findings(said: Dumped) -> list[tuple[str, str]]:
    """(first line of its section, pair) of what comes after the contents; Kafka's pairs come in reverse."""
    head, found = "", []
    for line in said.err:
        if line.startswith(("  ", "Indexed offset")):
            found.append((head, line))
        else:
            head = line
    return sorted(found)


def test_ours_says_what_kafkas_says_of_files_that_its_classes_wrote(tmp_path: Path, classpath: str) -> None:
    kafkas_program(classpath, "write", tmp_path)
    home = tmp_path / str(TP)
    files = segment_files(home)
    assert {file.suffix for file in files} == {".log", ".index", ".timeindex", ".snapshot"}
    for options in ((), ("--print-data-log",), ("--deep-iteration", "--skip-record-metadata", "--print-data-log")):
        ours, kafkas = both(classpath, files, *options)
        assert (ours.code, ours.err, kafkas.err) == (0, [], [])
    assert len(ours.batches) == 200
    assert {line["compresscodec"] for line in ours.batches} == {"none", "gzip", "snappy", "lz4", "zstd"}
    indexes = segment_files(home, ".index", ".timeindex")
    for option in ("--index-sanity-check", "--verify-index-only"):
        assert both(classpath, [*indexes, files[0]], option)[0].code == 0
    said = dump([home / checkpoints.LEADER_EPOCHS, home / checkpoints.PARTITION_METADATA])
    assert said.code == 0
    assert said.out[1:4] == ["epoch: 0 startOffset: 0", *said.out[2:4]]


def test_ours_says_what_kafkas_says_of_our_own_files(tmp_path: Path, classpath: str) -> None:
    cluster = DiskCluster(tmp_path, settings={"min.insync.replicas": "1"})
    cluster.settle()
    for n in range(120):
        producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 2, "base_sequence": n}
        new = [NewRecord(b"k" if n % 3 else None, b"v%d" % n * 20 if n % 4 else None, [("h", b"x"), ("i", None)])]
        data = encode_batch(new, timestamps=1000 + n, compression=list(Compression)[n % 5], **producer)
        cluster.produce_raw(1, memoryview(bytearray(data)))
        cluster.settle()
    cluster.advance(10_000)
    cluster.stop(3)
    files = segment_files(cluster.folder_of(3))
    ours, kafkas = both(classpath, files, "--print-data-log")
    assert (ours.code, len(ours.batches), ours.err, kafkas.err) == (0, 120, [], [])
    assert any(line.startswith("producerId: 7 ") for line in ours.out)
    cluster.close()


def test_ours_says_what_kafkas_says_of_a_cleaned_log(tmp_path: Path, classpath: str) -> None:
    chance = random.Random(5)
    clock = Clock(now=1e12)
    store = open_store(str(tmp_path), clock, COMPACTED | {"segment.bytes": "20000", "index.interval.bytes": "500"})
    log = open_log(store)
    for n in range(900):
        records = [(b"k%d" % chance.randrange(150), None if chance.random() < 0.2 else b"v" * 40) for _ in range(3)]
        producer: dict[str, Any] = {"producer_id": n % 3, "producer_epoch": 0, "base_sequence": n // 3 * 3}
        log.append_as_leader(keyed(records, int(clock.now) + n, list(Compression)[n % 5], **producer), n // 300)
        log.write()
    bench = cleaner_for(store, clock)
    bench.replicas.producers = {0: 599}
    bench.cleaner.check()
    store.close(clean=True)
    ours, kafkas = both(classpath, segment_files(tmp_path / str(TP)), "--deep-iteration")
    assert any("OptionalLong[" in line for line in ours.out)
    assert ours.code == 0
    assert any("is followed by" in pair for _, pair in findings(ours))
    assert findings(ours) == [found for found in findings(kafkas) if not found[1].endswith(_EMPTY_HEADER)]


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """A log of one segment with 200 batches."""
    store = open_store(str(tmp_path), Clock(), {"segment.bytes": "1000000", "index.interval.bytes": "500"})
    log = open_log(store)
    for n in range(200):
        data = encode_batch([NewRecord(b"k", b"v" * 50)] * (1 + n % 3), timestamps=1000 + n)
        log.append_as_leader(memoryview(bytearray(data)), 0)
        log.write()
    store.close(clean=True)
    return tmp_path / str(TP) / f"{0:020d}.log"


def test_damage_is_printed_in_kafkas_lines_where_it_has_some(segment: Path, classpath: str) -> None:
    content = bytearray(segment.read_bytes())
    places = [position for position, _ in iter_batches(memoryview(content), verify_crc=True)]
    content[places[20] + 80] ^= 1
    content[places[30] + 45] ^= 1
    segment.write_bytes(content[: places[150] + 100])
    ours, _ = both(classpath, [segment])
    assert (ours.code, ours.out[-1]) == (1, f"Found 100 invalid bytes at the end of {segment.name}")
    assert [line["isvalid"] for line in ours.batches].count("false") == 2
    index, time_index = segment.with_suffix(".index"), segment.with_suffix(".timeindex")
    segment.write_bytes(content)
    lying = bytearray(index.read_bytes())
    lying[8 + 3] -= 1
    lying[80 + 3] -= 1
    index.write_bytes(lying)
    entries = list(struct.iter_unpack(">qi", time_index.read_bytes()))
    several = next(n for n, (timestamp, _) in enumerate(entries) if n > 5 and (timestamp - 1000) % 3)
    entries[1] = (entries[1][0] + 1, entries[1][1])
    entries[4] = (entries[3][0], entries[4][1])
    entries[several] = (entries[several][0], entries[several][1] - 1)
    time_index.write_bytes(b"".join(struct.pack(">qi", *entry) for entry in entries))
    for options in ((), ("--verify-index-only",)):
        ours, kafkas = both(classpath, [index, time_index, segment], *options)
        assert ours.code == 1
        assert sum(head.startswith("Mismatches in :") for head, _ in findings(ours)) == 2
        kinds = {head.split(" ")[1] for head, _ in findings(ours)}
        assert kinds == {"in", "timestamp", "out", "following"}
        assert findings(ours) == findings(kafkas)


_RECORDS = 400
_TOPICS = {
    "plain": {},
    "rolling": {"segment.bytes": "20000"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "compacted": {
        "cleanup.policy": "compact",
        "segment.bytes": "4000",
        "min.cleanable.dirty.ratio": "0.01",
        "min.insync.replicas": "1",
    },
}


def _create_topics(brokers: Sequence[Broker]) -> None:
    admin = AdminClient({"bootstrap.servers": brokers[0].address})
    new = [NewTopic(name, 1, replica_assignment=[[1, 2]], config=config) for name, config in _TOPICS.items()]
    for made in admin.create_topics(new).values():
        made.result(60)


def _produce(bootstrap: str, codec: str, **more: object) -> None:
    settings = {"bootstrap.servers": bootstrap, "compression.type": codec, "acks": "all", **more}
    producer = Producer({**settings, "batch.num.messages": 7, "linger.ms": 5})
    for topic in _TOPICS:
        for n in range(_RECORDS):
            value = None if n % 9 == 8 else f"value {n} ".encode() * (n % 30)
            producer.produce(topic, value, b"k%d" % (n * n % 61), partition=0, headers=[("h", b"x")])
            producer.poll(0)
    assert producer.flush(120) == 0


def _transact(bootstrap: str) -> None:
    """Transactions that commit, one that aborts, and one that stays open."""
    settings = {"bootstrap.servers": bootstrap, "transactional.id": "tx", "transaction.timeout.ms": 600_000}
    producer = Producer({**settings, "batch.num.messages": 7})
    producer.init_transactions(60)
    for number in range(4):
        producer.begin_transaction()
        for n in range(20):
            producer.produce("rolling", b"in transaction %d" % n, partition=0)
        assert producer.flush(60) == 0
        if number < 2:
            producer.commit_transaction(60)
        elif number == 2:
            producer.abort_transaction(60)


def _is_cleaned(broker: Broker) -> bool:
    file = broker.data / CLEANER_OFFSETS
    return any(tp.topic == "compacted" and end > 500 for tp, end in checkpoints.read_offsets(str(file)).items())


def _partitions(broker: Broker) -> list[Path]:
    return sorted(folder for folder in broker.data.iterdir() if folder.is_dir())


def test_ours_says_what_kafkas_says_of_the_folders_of_real_kafka_brokers(tmp_path: Path, classpath: str) -> None:
    with kafka_brokers(tmp_path, 2) as (_, brokers):
        _create_topics(brokers)
        bootstrap = ",".join(broker.address for broker in brokers)
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            _produce(bootstrap, codec, **{"enable.idempotence": codec != "gzip"})
        _transact(bootstrap)
        wait_until(lambda: all(map(_is_cleaned, brokers)), "Kafka cleans the compacted topic on both brokers", 120)
        live = [
            file for folder in _partitions(brokers[0]) for file in segment_files(folder, ".log", ".index", ".timeindex")
        ]
        said = dump(live, "--deep-iteration")
        assert said.code == 0, said.err[:20]
        assert max(file.stat().st_size for file in live if file.suffix == ".index") > 1_000_000, "taken in advance"
        for broker in reversed(brokers):
            broker.daemon.stop()
        seen: set[str] = set()
        told: list[tuple[str, str]] = []
        for broker in brokers:
            suffixes = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")
            files = [file for folder in _partitions(broker) for file in segment_files(folder, *suffixes)]
            seen.update(file.suffix for file in files if file.stat().st_size)
            ours, kafkas = both(classpath, files, "--print-data-log")
            assert ours.code == 0, ours.err[:20]
            told += findings(ours)
            assert findings(ours) == [found for found in findings(kafkas) if not found[1].endswith(_EMPTY_HEADER)]
            _says_all_there_is(ours)
            _reads_texts(broker)
        assert seen == {".log", ".index", ".timeindex", ".snapshot", ".txnindex"}
        assert {head.split(" ")[0] for head, _ in told} == {"Non-consecutive"}, "a cleaned log has holes"


def _says_all_there_is(said: Dumped) -> None:
    """What a comparison alone would not show: that every kind of line was in it."""
    assert {line["compresscodec"] for line in said.batches} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert {line["isTransactional"] for line in said.batches} == {"true", "false"}
    assert any("LogAppendTime" in line for line in said.batches)
    assert any(line["producerId"] != "-1" for line in said.batches)
    assert any(line["deleteHorizonMs"] != "OptionalLong.empty" for line in said.batches)
    markers = [line for line in said.out if "endTxnMarker: " in line]
    assert {fields(line)["endTxnMarker"] for line in markers} == {"COMMIT", "ABORT"}
    snapshots = [fields(line) for line in said.out if line.startswith("producerId: ")]
    assert any(line["currentTxnFirstOffset"] != "OptionalLong.empty" for line in snapshots)
    assert any(line.startswith("version: 0 producerId: ") for line in said.out)


def _reads_texts(broker: Broker) -> None:
    names = (checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS, checkpoints.LOG_STARTS, CLEANER_OFFSETS)
    texts = [broker.data / name for name in names]
    for folder in _partitions(broker):
        texts += [folder / checkpoints.LEADER_EPOCHS, folder / checkpoints.PARTITION_METADATA]
    said = dump(texts)
    assert (said.code, said.err) == (0, [])
    offsets = [line for line in said.out if line.startswith("topic: plain partition: 0 offset: ")]
    assert offsets[0].endswith(f" {5 * _RECORDS}")
