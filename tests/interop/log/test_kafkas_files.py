"""L1 in both directions: our log reads what Apache Kafka's classes wrote, and they read every file that we write.

Kafka's side is `KafkasFiles.java`, run from its source against Kafka's jars.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from broker.core.producers import snapshot as producer_snapshot
from broker.wire.compression import Compression
from broker.wire.records import NewRecord, decode_records, encode_batch
from tests.property.log.log_tools import TOPIC_ID, TP, Clock, open_store, read_all
from tests.support.disk_cluster import DiskCluster
from tests.support.memory_node import TOPIC_ID as CLUSTERS_TOPIC_ID

pytestmark = [pytest.mark.nightly, pytest.mark.guarantee("L1")]

_PROGRAM = Path(__file__).with_name("KafkasFiles.java")
CONFIG = {"index.interval.bytes": "500", "segment.bytes": "1000000"}


def kafka(classpath: str, what: str, folder: Path) -> list[list[str]]:
    """What the program said, words by line."""
    if shutil.which("javac") is None:
        pytest.skip("needs a JDK: Java's compiler is missing")
    command = ["java", "-cp", classpath, str(_PROGRAM), what, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    return [line.split(" ") for line in done.stdout.splitlines()]


def by_kind(lines: list[list[str]]) -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = defaultdict(list)
    for kind, *rest in lines:
        found[kind].append(rest)
    return found


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("clean", [True, False])
def test_log_that_kafka_wrote_is_read_record_for_record(tmp_path: Path, classpath: str, clean: bool) -> None:
    said = by_kind(kafka(classpath, "write", tmp_path))
    ((end,),) = said["end"]
    partition = tmp_path / str(TP)
    if clean:
        recovered = f"0\n1\n{TP.topic} {TP.partition} {end}\n"
        (tmp_path / "recovery-point-offset-checkpoint").write_text(recovered)
    else:
        (tmp_path / ".kafka_cleanshutdown").unlink()
    before = contents(partition)
    store = open_store(str(tmp_path), Clock(), CONFIG)
    assert not store.offline_logs
    (report,) = store.reports
    assert (report.leo, report.clean, report.cut_bytes) == (int(end), clean, 0)
    assert store.clean_shutdown_epochs == {str(tmp_path): 91 if clean else None}
    log = store.logs()[TP]
    assert log.topic_id == TOPIC_ID
    records = [record for data in read_all(log) for record in decode_records(memoryview(data), verify_crc=True)]
    found = [
        [str(r.offset), str(r.timestamp), (r.key or b"").decode(), "-" if r.value is None else r.value.decode()]
        for r in records
    ]
    assert found == said["record"]
    assert all(record.headers == (("h", b"%d" % (record.timestamp % 10)),) for record in records)
    for offset, timestamp, _, _ in said["record"][::17]:
        place = log.offset_for_timestamp(int(timestamp), int(end))
        assert place is not None
        assert place[:2] == (int(timestamp), int(offset))
    epochs = [(0, 0), *[(epoch, log.end_offset_for_epoch(epoch - 1)[1]) for epoch in (1, 2)]]
    written = [line.split() for line in before["leader-epoch-checkpoint"].decode().splitlines()[2:]]
    assert [[str(epoch), str(start)] for epoch, start in epochs] == written
    snapshot = log.snapshots.latest(log.staged_end_offset)
    assert snapshot is not None
    (known,) = producer_snapshot.decode(snapshot[1]) or []
    assert (known.producer_id, known.epoch) == (77, 3)
    if clean:
        after = contents(partition)
        kept = [name for name in before if name.endswith((".log", ".index", ".timeindex", ".snapshot"))]
        assert [name for name in kept if after[name] != before[name]] == [], "its indexes were believed"
    store.close(clean=True)


def test_kafka_reads_every_file_that_a_replica_writes(tmp_path: Path, classpath: str) -> None:
    cluster = DiskCluster(tmp_path, settings={"min.insync.replicas": "1"})
    cluster.settle()
    codecs = list(Compression)
    expected: list[list[str]] = []
    offset = 0
    for n in range(120):
        count = 1 + n % 3
        producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 2, "base_sequence": offset}
        data = encode_batch(
            [NewRecord(b"k", b"v%d" % n * 20)] * count, timestamps=1000 + n, compression=codecs[n % 5], **producer
        )
        cluster.produce_raw(1, memoryview(bytearray(data)))
        cluster.settle()
        if n == 60:
            cluster.elect(1)
            cluster.settle()
        codec = codecs[n % 5].name.lower()
        expected.append([str(offset), str(offset + count - 1), "1" if n > 60 else "0", codec, str(count)])
        offset += count
    cluster.advance(10_000)
    for broker in (3, 1):
        store = cluster._stores[broker]
        store._dirs.ensure_identity(broker, "the-cluster")
        store.registered(55)
        cluster.nodes[broker].up.shutdown(clean=True)
        store.close(clean=True)
        said = by_kind(kafka(classpath, "read", tmp_path / str(broker)))
        assert said["batch"] == expected
        starts = [int(base) for base, _ in said["next"]]
        assert [int(end) for _, end in said["next"]] == [*starts[1:], offset], "each segment ends where the next begins"
        assert len(starts) > 3
        assert said["epoch"] == [["0", "0"], ["1", expected[61][0]]]
        assert said["topic-id"] == [[CLUSTERS_TOPIC_ID]]
        newest = [line[1:] for line in said["producer"] if int(line[0][:20]) == offset]
        assert newest == [["7", "2", str(offset - 1), str(offset - 1)]]
        for name, value in {
            "recovery-point-offset-checkpoint": offset,
            "replication-offset-checkpoint": offset,
            "log-start-offset-checkpoint": 0,
        }.items():
            assert said[name] == [[str(value)]], name
        assert said["broker"] == [[str(broker), "the-cluster"]]
        assert said["clean"] == [["55"]]
    cluster.close()
