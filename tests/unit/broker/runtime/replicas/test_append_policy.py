"""Topics that are not content with batches as they were sent: the leader's clock, a codec, a bound on the future."""

from __future__ import annotations

import crc32c
import pytest

from broker.config.settings import Settings, validate_broker_config, validate_topic_config
from broker.config.values import ConfigError
from broker.core.admin.alter_configs import BROKER as BROKER_KIND
from broker.core.admin.alter_configs import TOPIC as TOPIC_KIND
from broker.core.admin.alter_configs import ConfigRefused, check_config
from broker.model.log_errors import LogDirFailed
from broker.runtime.metadata.usable_overrides import usable_overrides
from broker.runtime.replicas.append_policy import AppendPolicy
from broker.wire.batch_rewriting import with_append_time
from broker.wire.compression import Compression
from broker.wire.errors import ErrorCode
from broker.wire.messages.produce import ProducePartitionResult
from broker.wire.record_batch import HEADER_SIZE, TIMESTAMP_TYPE_BIT, iter_batches, read_header
from broker.wire.records import NewRecord, decode_records, encode_batch
from tests.support.memory_cluster import MemoryCluster, fetched, produced
from tests.support.memory_node import TOPIC

pytestmark = pytest.mark.guarantee("L4")

SETTINGS = Settings.parse({"zookeeper.connect": "x:1"})
TYPES = {
    Compression[name.upper()] if name != "uncompressed" else Compression.NONE: name
    for name in (
        "uncompressed",
        "gzip",
        "snappy",
        "lz4",
        "zstd",
    )
}
APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}


def _cluster(**topic: str) -> MemoryCluster:
    cluster = MemoryCluster()
    cluster.topic_config.update({name.replace("_", "."): value for name, value in topic.items()})
    for i in cluster.ids:
        cluster.nodes[i].up.hosting.on_topic_config(TOPIC)
    cluster.settle()
    return cluster


def _batch(*values: bytes, codec: Compression = Compression.NONE, timestamp: int = 5, **more: int) -> memoryview:
    records = [NewRecord(b"k", value) for value in values]
    return memoryview(bytearray(encode_batch(records, timestamps=timestamp, compression=codec, **more)))  # type: ignore[arg-type]


def _send(cluster: MemoryCluster, batch: memoryview, acks: int = -1) -> ProducePartitionResult:
    slot = cluster.produce_raw(1, batch, acks)
    cluster.settle()
    result = produced(slot)
    assert result is not None
    return result


def _stored(cluster: MemoryCluster, i: int = 1) -> list[bytes]:
    return [data for _, _, _, data in cluster.nodes[i].log.batches]


def test_ordinary_topic_has_no_policy() -> None:
    assert AppendPolicy.of({}, SETTINGS) is None
    assert AppendPolicy.of({"compression.type": "producer", "compression.zstd.level": "9"}, SETTINGS) is None
    assert _cluster().nodes[1].up.replicas.by_partition[(TOPIC, 0)].append_policy is None


def test_ordinary_topic_reads_no_wall_clock() -> None:
    cluster = _cluster()

    def ask() -> int:
        raise AssertionError("the wall clock was read")

    cluster.nodes[1].up.appender.wall_ms = ask
    assert _send(cluster, _batch(b"a")).error == 0
    cluster.topic_config.update(APPEND_TIME)
    cluster.nodes[1].up.hosting.on_topic_config(TOPIC)
    with pytest.raises(AssertionError, match="the wall clock was read"):
        _send(cluster, _batch(b"a"))


def test_append_that_fails_has_no_append_time(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _cluster(**APPEND_TIME)

    def fail(*_: object) -> None:
        raise LogDirFailed("/data", 5, "Input/output error")

    monkeypatch.setattr(cluster.nodes[1].log, "append_as_leader", fail)
    result = _send(cluster, _batch(b"a"))
    assert (result.error, result.base_offset, result.log_append_time) == (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1)


def test_policy_has_the_level_of_its_own_codec() -> None:
    levels = {"compression.gzip.level": "2", "compression.lz4.level": "3", "compression.zstd.level": "-4"}
    found = {name: AppendPolicy.of({"compression.type": name, **levels}, SETTINGS) for name in TYPES.values()}
    assert {name: policy.level for name, policy in found.items() if policy} == {
        "uncompressed": None,
        "gzip": 2,
        "snappy": None,
        "lz4": 3,
        "zstd": -4,
    }


@pytest.mark.parametrize("codec", list(Compression))
def test_append_time_is_stored_returned_and_the_same_on_all_replicas(codec: Compression) -> None:
    cluster = _cluster(**APPEND_TIME)
    result = _send(cluster, _batch(b"a", b"b", codec=codec))
    assert (result.error, result.base_offset, result.log_append_time) == (0, 0, cluster.wall_ms)
    (stored,) = _stored(cluster)
    ((_, header),) = iter_batches(memoryview(stored), verify_crc=True)
    assert (header.compression, header.is_log_append_time, header.max_timestamp) == (codec, True, cluster.wall_ms)
    assert [(r.timestamp, r.value) for r in decode_records(stored)] == [
        (cluster.wall_ms, b"a"),
        (cluster.wall_ms, b"b"),
    ]
    assert _stored(cluster, 2) == _stored(cluster, 3) == [stored]


@pytest.mark.parametrize("source", list(Compression))
@pytest.mark.parametrize("target", list(Compression))
@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_codec_of_the_topic_is_stored_on_all_replicas(
    source: Compression, target: Compression, timestamp_type: str
) -> None:
    cluster = _cluster(compression_type=TYPES[target], message_timestamp_type=timestamp_type)
    batch = _batch(b"a" * 300, b"b" * 300, codec=source, producer_id=7, producer_epoch=0, base_sequence=0)
    sent = read_header(batch)
    result = _send(cluster, batch)
    time = cluster.wall_ms if timestamp_type == "LogAppendTime" else 5
    assert (result.error, result.log_append_time) == (0, -1 if time == 5 else time)
    (stored,) = _stored(cluster)
    ((_, header),) = iter_batches(memoryview(stored), verify_crc=True)
    assert header.compression == target
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 0, 0)
    assert header.partition_leader_epoch == cluster.state.leader_epoch
    assert [(r.offset, r.timestamp, r.key, r.value) for r in decode_records(stored)] == [
        (0, time, b"k", b"a" * 300),
        (1, time, b"k", b"b" * 300),
    ]
    assert _stored(cluster, 2) == _stored(cluster, 3) == [stored]
    if source == target and timestamp_type == "CreateTime":
        assert header.crc == sent.crc


def test_repeat_gets_the_time_of_the_original() -> None:
    cluster = _cluster(**APPEND_TIME)
    batch = bytes(_batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0))
    first = _send(cluster, memoryview(bytearray(batch)))
    cluster.wall_ms += 5000
    _send(cluster, _batch(b"b"))
    again = _send(cluster, memoryview(bytearray(batch)))
    assert (again.base_offset, again.log_append_time) == (first.base_offset, first.log_append_time)
    assert len(_stored(cluster)) == 2


def test_append_time_goes_with_the_wall_clock_whatever_the_producer_says() -> None:
    cluster = _cluster(**APPEND_TIME)
    times = []
    for step in (0, 1000, 1000):
        cluster.wall_ms += step
        times.append(cluster.wall_ms)
        _send(cluster, _batch(b"v", timestamp=10**15))
    headers = [read_header(memoryview(data)) for data in _stored(cluster)]
    assert [header.max_timestamp for header in headers] == times


def test_settings_that_change_at_run_time_change_what_comes_next_only() -> None:
    cluster = _cluster()
    _send(cluster, _batch(b"a"))
    cluster.topic_config.update({"compression.type": "gzip"})
    cluster.nodes[1].up.hosting.on_topic_config(TOPIC)
    _send(cluster, _batch(b"b"))
    cluster.topic_config.pop("compression.type")
    cluster.nodes[1].up.hosting.on_topic_config(TOPIC)
    _send(cluster, _batch(b"c"))
    assert [read_header(memoryview(data)).compression for data in _stored(cluster)] == [0, 1, 0]


def test_brokers_default_holds_for_topics_without_an_override() -> None:
    cluster = MemoryCluster(settings={"compression.type": "zstd", "log.message.timestamp.type": "LogAppendTime"})
    cluster.settle()
    result = _send(cluster, _batch(b"a"))
    assert result.log_append_time == cluster.wall_ms
    assert read_header(memoryview(_stored(cluster)[0])).compression == Compression.ZSTD


def test_consumer_fetches_what_the_leader_wrote() -> None:
    cluster = _cluster(compression_type="uncompressed", **APPEND_TIME)
    _send(cluster, _batch(b"a" * 100, codec=Compression.ZSTD))
    got = fetched(cluster.fetch(1, 0))
    assert got is not None
    assert bytes(got.records_view) == _stored(cluster)[0]


def test_batch_that_is_too_large_in_its_new_codec_is_refused() -> None:
    cluster = _cluster(compression_type="uncompressed", max_message_bytes="2000")
    small = _send(cluster, _batch(bytes(1500), codec=Compression.GZIP))
    large = _send(cluster, _batch(bytes(5000), codec=Compression.GZIP))
    assert (small.error, large.error) == (0, ErrorCode.MESSAGE_TOO_LARGE)
    assert large.error_message is not None
    assert "inflates to more than 1939 bytes" in large.error_message
    assert cluster.nodes[1].log.staged_end_offset == 1


def test_batch_that_grows_by_its_new_codec_is_refused_above_the_maximum() -> None:
    raw = _batch(bytes(range(256)))
    cluster = _cluster(compression_type="snappy", max_message_bytes=str(len(raw)))
    result = _send(cluster, raw)
    assert result.error == ErrorCode.MESSAGE_TOO_LARGE
    assert result.error_message is not None
    assert "bytes as snappy, max.message.bytes is" in result.error_message


def test_hostile_batch_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.runtime.replicas.append_policy.INFLATED_BYTES_MAX", 1 << 20)
    cluster = _cluster(compression_type="zstd", max_message_bytes="20000")
    result = _send(cluster, _batch(bytes(2 << 20), codec=Compression.GZIP))
    assert (result.error, cluster.nodes[1].log.staged_end_offset) == (ErrorCode.MESSAGE_TOO_LARGE, 0)
    monkeypatch.setattr("broker.runtime.replicas.append_policy.RECORDS_MAX", 2)
    assert _send(cluster, _batch(*[b"v"] * 3)).error == ErrorCode.MESSAGE_TOO_LARGE
    assert _send(cluster, _batch(*[b"v"] * 2)).error == 0


def test_records_that_are_none_are_corrupt_when_they_are_to_be_packed_anew() -> None:
    raw = _batch(b"value")
    raw[HEADER_SIZE] = 0x7E  # the first record's length
    raw[17:21] = crc32c.crc32c(raw[21:]).to_bytes(4, "big")
    assert _send(_cluster(compression_type="gzip"), memoryview(bytearray(raw))).error == ErrorCode.CORRUPT_MESSAGE
    assert _send(_cluster(**APPEND_TIME), raw).error == 0


def test_codec_that_is_not_installed_is_an_unsupported_one(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _cluster(compression_type="gzip")
    batch = _batch(b"a", codec=Compression.LZ4)
    monkeypatch.setitem(__import__("sys").modules, "cramjam", None)
    result = _send(cluster, batch)
    assert result.error == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert result.error_message is not None
    assert "lz4 needs the package cramjam" in result.error_message


def test_setting_of_a_codec_that_is_not_installed_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cramjam", None)
    for name in ("gzip", "uncompressed", "producer"):
        validate_topic_config("compression.type", name)
    for name in ("snappy", "lz4", "zstd"):
        with pytest.raises(ConfigError, match=f"compression.type='{name}': {name} needs the package cramjam"):
            validate_topic_config("compression.type", name)
        with pytest.raises(ConfigError, match="cramjam"):
            Settings.parse({"zookeeper.connect": "x:1", "compression.type": name})
        assert usable_overrides("t", {"compression.type": name, "segment.ms": "9"}) == {"segment.ms": "9"}
        for kind, error in ((TOPIC_KIND, ErrorCode.INVALID_CONFIG), (BROKER_KIND, ErrorCode.INVALID_REQUEST)):
            with pytest.raises(ConfigRefused, match=f"{name} needs the package cramjam") as refused:
                check_config(kind, "1", {"compression.type": name}, SETTINGS)
            assert refused.value.error == error


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("compression.type", "uncompressed zstd lz4 snappy gzip producer", "none brotli GZIP"),
        ("compression.gzip.level", "-1 1 9", "0 10 -2 x"),
        ("compression.lz4.level", "1 17", "0 18"),
        ("compression.zstd.level", "-131072 0 22", "-131073 23"),
        ("message.timestamp.type", "CreateTime LogAppendTime", "createtime Now"),
        ("message.timestamp.after.max.ms", "0 9223372036854775807", "-1 9223372036854775808"),
    ],
)
def test_settings_have_kafkas_ranges(name: str, good: str, bad: str) -> None:
    of_broker = name if name.startswith("compression") else f"log.{name}"
    for value in good.split():
        validate_topic_config(name, value)
        validate_broker_config(of_broker, value)
    for value in bad.split():
        with pytest.raises(ConfigError, match=name):
            validate_topic_config(name, value)
        with pytest.raises(ConfigError, match=of_broker):
            validate_broker_config(of_broker, value)


def test_timestamp_too_far_ahead_of_the_leader_is_invalid() -> None:
    cluster = _cluster(message_timestamp_after_max_ms="1000")
    ahead = _batch(b"a", timestamp=cluster.wall_ms + 1001)
    result = _send(cluster, memoryview(bytearray(ahead)))
    assert (result.error, cluster.nodes[1].log.staged_end_offset) == (ErrorCode.INVALID_TIMESTAMP, 0)
    assert _send(cluster, _batch(b"a", timestamp=cluster.wall_ms + 1000)).error == 0
    assert _send(cluster, _batch(b"a", timestamp=-1)).error == 0
    cluster.topic_config.update(APPEND_TIME)
    cluster.nodes[1].up.hosting.on_topic_config(TOPIC)
    assert _send(cluster, ahead).error == 0


@pytest.mark.parametrize("topic", [{}, APPEND_TIME])
def test_producer_that_claims_the_leaders_time_is_refused(topic: dict[str, str]) -> None:
    cluster = _cluster(**topic)
    batch = _batch(b"a")
    assert with_append_time(read_header(batch), batch, 9).attributes & TIMESTAMP_TYPE_BIT
    result = _send(cluster, batch)
    assert (result.error, cluster.nodes[1].log.staged_end_offset) == (ErrorCode.INVALID_TIMESTAMP, 0)
