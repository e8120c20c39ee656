"""server.properties → settings: Kafka's names and defaults, refusals that name setting, value and remedy."""

from __future__ import annotations

import sys

import pytest

from broker.config.settings import Endpoint, Settings, topic_bool, topic_int, validate_topic_config
from broker.config.values import ConfigError

pytestmark = pytest.mark.guarantee("R9", "L3")

MINIMAL = {"zookeeper.connect": "localhost:2181"}


def test_settings_without_overrides_have_kafkas_defaults() -> None:
    settings = Settings.parse(MINIMAL)
    assert settings.broker_id == -1
    assert settings.replica_lag_time_max_ms == 30_000
    assert settings.zookeeper_session_timeout_ms == 18_000
    assert settings.zookeeper_connection_timeout_ms == 18_000
    assert settings.listeners == (Endpoint("PLAINTEXT", "", 9092),)
    assert settings.topic_defaults["retention.ms"] == str(168 * 3_600_000)
    assert settings.replica_truncation == "leader-epoch"
    assert settings.unclean_leader_election_enable is False


@pytest.mark.parametrize(
    ("overrides", "fragments"),
    [
        ({"zookeeper.connect": ""}, ["zookeeper.connect", "host:port"]),
        ({"broker.id": "one"}, ["Invalid value one for configuration broker.id: Not a number of type INT"]),
        ({"replica.lag.time.max.ms": "0"}, ["replica.lag.time.max.ms", "0", "at least 1"]),
        ({"connections.max.idle.ms": "0"}, ["connections.max.idle.ms", "whole number, but not 0"]),
        ({"socket.send.buffer.bytes": "0"}, ["socket.send.buffer.bytes", "whole number from -1, but not 0"]),
        ({"compression.gzip.level": "0"}, ["compression.gzip.level", "from -1 to 9, but not 0"]),
        ({"broker.id": "2147483648"}, ["broker.id", "2147483648", "Not a number of type INT"]),
        ({"log.retention.ms": "9223372036854775808"}, ["log.retention.ms", "Not a number of type LONG"]),
        ({"num.partitions": "1_000"}, ["num.partitions", "1_000", "Not a number of type INT"]),
        ({"log.cleaner.io.max.bytes.per.second": "1_000"}, ["1_000", "Not a number of type DOUBLE"]),
        ({"log.cleaner.io.max.bytes.per.second": "\uff15"}, ["\uff15", "Not a number of type DOUBLE"]),
        ({"log.cleaner.io.max.bytes.per.second": "inf"}, ["inf", "Not a number of type DOUBLE"]),
        (
            {"log.cleaner.min.cleanable.ratio": "nan"},
            ["log.cleaner.min.cleanable.ratio", "nan", "Not a number of type DOUBLE"],
        ),
        (
            {"replica.truncation": "hw"},
            ["replica.truncation", "hw", "String must be one of: leader-epoch, high-watermark"],
        ),
        ({"listeners": "localhost:9092"}, ["listeners", "localhost:9092", "PLAINTEXT://host:9092"]),
        ({"listeners": "PLAINTEXT://a:70000"}, ["listeners", "70000"]),
        ({"listeners": "PLAINTEXT://a:909\uff12"}, ["listeners", "909\uff12", "PLAINTEXT://host:9092"]),
        (
            {"listeners": "PLAINTEXT://a:1,plaintext://b:2"},
            ["listeners: PLAINTEXT://a:1 and plaintext://b:2", "PLAINTEXT", "Each listener must have a different name"],
        ),
        (
            {"advertised.listeners": "PLAINTEXT://a:1,PLAINTEXT://a:1"},
            ["advertised.listeners: PLAINTEXT://a:1", "Each listener must have a different name"],
        ),
        (
            {"listeners": "PLAINTEXT://:1,SSL://a:1"},
            ["listeners: PLAINTEXT and SSL have the same port, 1", "must have a different port"],
        ),
        (
            {"listeners": "PLAINTEXT://10.0.0.1:1,SSL://10.0.0.2:1"},
            ["listeners: PLAINTEXT and SSL have the same port, 1", "must have a different port"],
        ),
        ({"listeners": "PLAINTEXT://10.0.0.1:1,SSL://[::1]:1"}, ["only PLAINTEXT is served"]),
        ({"listeners": "PLAINTEXT://:0,SSL://:0"}, ["only PLAINTEXT is served"]),
        ({"listeners": " "}, ["listeners is empty", "for example PLAINTEXT://:9092"]),
        ({"listeners": ","}, ["listeners is empty", "for example PLAINTEXT://:9092"]),
        ({"advertised.listeners": ""}, ["advertised.listeners is empty"]),
        ({"log.dirs": ""}, ["log.dirs is empty", "at least one folder"]),
        ({"log.dirs": " , "}, ["log.dirs is empty", "at least one folder"]),
        ({"log.dirs": "", "log.dir": "/a"}, ["log.dirs is empty"]),
        ({"log.dir": ""}, ["log.dir is empty"]),
        ({"zookeeper.connect": ":"}, ["zookeeper.connect=':'", "host:port[,host:port...][/chroot]"]),
        ({"zookeeper.connect": "a:99999"}, ["zookeeper.connect", "'a:99999'", "localhost:2181"]),
        ({"zookeeper.connect": "a:2181,b..c:2181"}, ["zookeeper.connect", "'b..c:2181'", "localhost:2181"]),
        ({"zookeeper.connect": f"{'a' * 64}.b:2181"}, ["zookeeper.connect", "localhost:2181"]),
        ({"advertised.listeners": "PLAINTEXT://a..b:1"}, ["advertised.listeners", "a..b", "PLAINTEXT://host:9092"]),
        ({"zookeeper.connect": "a:2181,b:x"}, ["zookeeper.connect", "'b:x'"]),
        ({"zookeeper.connect": "a:2181,"}, ["zookeeper.connect", "''"]),
        ({"zookeeper.connect": "[::1"}, ["zookeeper.connect", "'[::1'"]),
        ({"zookeeper.connect": "http://a:2181"}, ["zookeeper.connect", "'http:'"]),
        ({"zookeeper.connect": "a:2181/b/../c"}, ["zookeeper.connect", "'/b/../c'", "znodes"]),
        ({"zookeeper.connect": "a:2181//b"}, ["zookeeper.connect", "'//b'"]),
        ({"listeners": "SSL://a:9093"}, ["listeners", "SSL", "PLAINTEXT"]),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, ["advertised.listeners", "0.0.0.0"]),
        ({"advertised.listeners": "OTHER://a:1"}, ["advertised.listeners", "same names"]),
        (
            {"auto.create.topics.enable": "yes"},
            ["auto.create.topics.enable", "yes", "Expected value to be either true or false"],
        ),
        (
            {"log.cleanup.policy": "compress"},
            ["log.cleanup.policy", "compress", "String must be one of: compact, delete"],
        ),
        ({"log.cleanup.policy": ","}, ["log.cleanup.policy", "String must be one of: compact, delete"]),
        (
            {"log.cleaner.min.compaction.lag.ms": "2", "log.cleaner.max.compaction.lag.ms": "1"},
            ["log.cleaner.min.compaction.lag.ms=2", "log.cleaner.max.compaction.lag.ms=1"],
        ),
    ],
)
def test_settings_with_a_bad_value_name_setting_value_and_remedy(
    overrides: dict[str, str], fragments: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        Settings.parse(MINIMAL | overrides)
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_connections_may_be_idle_for_ever_as_in_kafka() -> None:
    assert Settings.parse(MINIMAL | {"connections.max.idle.ms": "-1"}).connections_max_idle_ms == -1


def test_settings_with_an_unread_name_keep_it_to_be_reported() -> None:
    assert Settings.parse(MINIMAL | {"num.io.threads": "8"}).unknown == ("num.io.threads",)


@pytest.mark.parametrize(
    ("given", "expected_ms"),
    [
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, 120_000),
        ({"log.retention.minutes": "2", "log.retention.ms": "5"}, 5),
        ({"log.retention.ms": "-1"}, -1),
    ],
)
def test_retention_ms_beats_minutes_beats_hours(given: dict[str, str], expected_ms: int) -> None:
    settings = Settings.parse(MINIMAL | given)
    assert topic_int({}, settings, "retention.ms") == expected_ms


@pytest.mark.parametrize(
    ("given", "roll_ms", "jitter_ms"),
    [
        ({}, 168 * 3_600_000, 0),
        ({"log.roll.hours": "2", "log.roll.jitter.hours": "1"}, 7_200_000, 3_600_000),
        ({"log.roll.ms": "5", "log.roll.hours": "2"}, 5, 0),
        ({"log.roll.ms": "7200000", "log.roll.jitter.ms": "3", "log.roll.jitter.hours": "1"}, 7_200_000, 3),
        ({"log.roll.jitter.ms": "0", "log.roll.jitter.hours": "1"}, 168 * 3_600_000, 0),
    ],
)
def test_roll_ms_beats_hours(given: dict[str, str], roll_ms: int, jitter_ms: int) -> None:
    settings = Settings.parse(MINIMAL | given)
    assert topic_int({}, settings, "segment.ms") == roll_ms
    assert topic_int({}, settings, "segment.jitter.ms") == jitter_ms


def test_topic_override_beats_the_brokers_default() -> None:
    settings = Settings.parse(MINIMAL | {"min.insync.replicas": "2"})
    assert topic_int({}, settings, "min.insync.replicas") == 2
    assert topic_int({"min.insync.replicas": "3"}, settings, "min.insync.replicas") == 3
    assert topic_bool({"unclean.leader.election.enable": "true"}, settings, "unclean.leader.election.enable") is True


_REFUSED = {"remote.storage.enable": "Tiered Storage functionality is disabled in the broker"}


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("preallocate", "false", "true x"),
        ("message.format.version", "0.11.0 0.11.0-IV2 1.0-IV0 2.8 3.0-IV1 3.9.1", "0.10.2 0.9.0.1 x 3"),
        ("message.downconversion.enable", "true false", "x"),
        ("message.timestamp.before.max.ms", "9223372036854775807", "1000 x"),
        ("message.timestamp.difference.max.ms", "9223372036854775807", "1000"),
        ("remote.storage.enable", "false FALSE", "true"),
        ("remote.log.copy.disable", "false", "true"),
        ("remote.log.delete.on.disable", "false", "true"),
        ("local.retention.ms", "-2 -1 1000", "-3 x"),
        ("local.retention.bytes", "-2 -1 1000", "-3 x"),
    ],
)
def test_settings_of_kafkas_that_change_nothing_here_may_say_what_is_done_anyway(
    name: str, good: str, bad: str
) -> None:
    for value in good.split():
        validate_topic_config(name, value)
    for value in bad.split():
        with pytest.raises(ConfigError, match=_REFUSED.get(name, name).replace(".", r"\.")):
            validate_topic_config(name, value)


@pytest.mark.parametrize(("name", "value"), [("no.such", "1"), ("min.insync.replicas", "0"), ("segment.bytes", "x")])
def test_topic_config_with_a_bad_name_or_value_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
        validate_topic_config(name, value)


@pytest.mark.parametrize("connect", ["a", "a:2181", "a:1, b_1.c-d:2", "[::1]:2181/x", "10.0.0.1:2181/x/y/", "a:2181/"])
def test_zookeeper_connect_that_may_be_is_kept(connect: str) -> None:
    assert Settings.parse({"zookeeper.connect": connect}).zookeeper_connect == connect


def test_log_dir_is_a_list_as_log_dirs_is_and_gives_way_to_it() -> None:
    settings = {"zookeeper.connect": "a", "log.dir": "/a, /b,/a"}
    assert Settings.parse(settings).log_dirs == ("/a", "/b")
    assert Settings.parse({**settings, "log.dirs": "/c"}).log_dirs == ("/c",)


def test_codec_of_offsets_that_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first commit would have to be compressed with it, at the end of a turn, where an error ends the broker."""
    name = "offsets.topic.compression.codec"
    monkeypatch.setitem(sys.modules, "cramjam", None)
    for codec in ("0", "1"):
        assert Settings.parse({"zookeeper.connect": "x:1", name: codec}).offsets_topic_compression_codec == int(codec)
    for codec, called in (("2", "snappy"), ("3", "lz4"), ("4", "zstd")):
        with pytest.raises(ConfigError, match=f"{name}='{codec}': {called} needs the package cramjam"):
            Settings.parse({"zookeeper.connect": "x:1", name: codec})
