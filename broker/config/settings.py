"""server.properties → frozen settings. Names and defaults are Kafka's; the table is `broker.config.table`.

Every refusal names the setting, the value found and what would be right. A setting of Kafka's that highwater does not
read is kept in `unknown` and reported once at the start, as Kafka does, never silently accepted.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from broker.config.hosts import can_be_host
from broker.config.table import BY_NAME, IDLE_SETTINGS, INERT_TOPIC_SETTINGS, MESSAGE_FORMAT, TOPIC_SETTINGS, Setting
from broker.config.transactions import TransactionSettings
from broker.config.values import ConfigError, check_codec, convert, given_or_default
from broker.config.zookeeper_connect import check_connect
from broker.wire.compression import Compression

_LISTENER = re.compile(r"^(?P<name>[A-Za-z0-9_]+)://(?P<host>\[[0-9A-Fa-f:]+\]|[^:/\s]*):(?P<port>[0-9]{1,5})$")
_THROTTLED_REPLICAS = re.compile(r"^(\*|[0-9]+:[0-9]+(,[0-9]+:[0-9]+)*)?$")
_RELEASE = re.compile(r"(\d{1,3})\.(\d{1,3})(\.\d{1,3}){0,2}(-IV\d{1,3})?", re.ASCII)
_LONG_MAX = 2**63 - 1
_OFFSETS_CODEC = "offsets.topic.compression.codec"
_NO_COPIES = "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` under Zookeeper's mode."
_KAFKAS_REFUSALS = {
    "remote.storage.enable": "Tiered Storage functionality is disabled in the broker. "
    "Topic cannot be configured with remote log storage.",
    "remote.log.copy.disable": _NO_COPIES,
    "remote.log.delete.on.disable": _NO_COPIES,
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One listener. An empty host listens on all addresses."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Settings:
    """A broker's settings, parsed and checked. Absent values with a default are filled in."""

    broker_id: int
    rack: str | None
    listeners: tuple[Endpoint, ...]
    advertised_listeners: tuple[Endpoint, ...]
    log_dirs: tuple[str, ...]
    zookeeper_connect: str
    zookeeper_session_timeout_ms: int
    zookeeper_connection_timeout_ms: int
    num_partitions: int
    default_replication_factor: int
    auto_create_topics_enable: bool
    delete_topic_enable: bool
    auto_leader_rebalance_enable: bool
    leader_imbalance_check_interval_seconds: int
    leader_imbalance_per_broker_percentage: int
    replication_quota_window_num: int
    replication_quota_window_size_seconds: int
    alter_log_dirs_replication_quota_window_num: int
    alter_log_dirs_replication_quota_window_size_seconds: int
    min_insync_replicas: int
    unclean_leader_election_enable: bool
    replica_lag_time_max_ms: int
    replica_fetch_wait_max_ms: int
    replica_fetch_min_bytes: int
    replica_fetch_max_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_backoff_ms: int
    replica_socket_timeout_ms: int
    replica_selector_class: str | None
    replica_high_watermark_checkpoint_interval_ms: int
    replica_truncation: str
    controller_socket_timeout_ms: int
    controlled_shutdown_enable: bool
    failure_suspicion_enable: bool
    inter_broker_addresses_only: bool
    controlled_shutdown_max_retries: int
    controlled_shutdown_retry_backoff_ms: int
    controlled_shutdown_farewell_ms: int
    request_timeout_ms: int
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    socket_receive_buffer_bytes: int
    connections_max_idle_ms: int
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    message_max_bytes: int
    log_retention_check_interval_ms: int
    log_cleaner_enable: bool
    log_cleaner_threads: int
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_buffer_size: int
    log_cleaner_io_max_bytes_per_second: float | None
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    producer_id_expiration_ms: int
    producer_id_expiration_check_interval_ms: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    offsets_topic_compression_codec: int
    offsets_commit_timeout_ms: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offset_metadata_max_bytes: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_size: int
    lab_event_log: str | None
    lab_event_log_topic_ids: list[str]
    transactions: TransactionSettings
    topic_defaults: Mapping[str, str]
    """Topic-level names → the broker's default for them, as text: what a topic without overrides has.

    The only value here that changes while the broker runs; see `retake_topic_defaults`.
    """
    given: Mapping[str, str]
    """The file's properties as text, for DescribeConfigs."""
    unknown: tuple[str, ...]

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> Settings:
        """Raises ConfigError at the first setting that cannot work."""
        values: dict[str, Any] = {name: given_or_default(setting, properties) for name, setting in BY_NAME.items()}
        get = values.__getitem__
        if not get("zookeeper.connect"):
            raise ConfigError(
                "zookeeper.connect is missing: give host:port[,host:port...][/chroot], for example localhost:2181"
            )
        check_connect(get("zookeeper.connect"))
        for name in ("listeners", "advertised.listeners"):
            if not properties.get(name, name).strip():
                raise ConfigError(f"{name} is empty: give at least one, for example PLAINTEXT://:9092")
        listeners = _endpoints("listeners", get("listeners"))
        _check_ports(listeners)
        advertised_text = get("advertised.listeners")
        advertised = _endpoints("advertised.listeners", advertised_text) if advertised_text else listeners
        for endpoint in advertised:
            if endpoint.host == "0.0.0.0":
                raise ConfigError(
                    "advertised.listeners cannot be 0.0.0.0, which no client reaches: give an address that clients use"
                )
        if {e.name for e in advertised} - {e.name for e in listeners}:
            raise ConfigError(
                "advertised.listeners names a listener that is not in listeners: both must use the same names"
            )
        for endpoint in listeners:
            if endpoint.name.upper() != "PLAINTEXT":
                raise ConfigError(f"listeners names {endpoint.name!r}: only PLAINTEXT is served so far")
        least, most = get("log.cleaner.min.compaction.lag.ms"), get("log.cleaner.max.compaction.lag.ms")
        if least > most:
            raise ConfigError(
                f"log.cleaner.min.compaction.lag.ms={least} is above log.cleaner.max.compaction.lag.ms={most}: "
                "records would have to be compacted before they may be"
            )
        shortest, longest = get("group.min.session.timeout.ms"), get("group.max.session.timeout.ms")
        if shortest > longest:
            raise ConfigError(
                f"group.min.session.timeout.ms={shortest} is above group.max.session.timeout.ms={longest}: "
                "no member could join a group"
            )
        codec = get(_OFFSETS_CODEC)
        check_codec(_OFFSETS_CODEC, str(codec), Compression(codec))
        dirs = _log_dirs(properties, get("log.dir"))
        fields = {name.replace(".", "_").replace("-", "_"): value for name, value in values.items()}
        return cls(
            rack=fields["broker_rack"],
            listeners=listeners,
            advertised_listeners=advertised,
            log_dirs=tuple(dict.fromkeys(dirs)),
            zookeeper_connection_timeout_ms=get("zookeeper.connection.timeout.ms")
            or get("zookeeper.session.timeout.ms"),
            transactions=TransactionSettings.of(values),
            topic_defaults=_topic_defaults(values),
            given=dict(properties),
            unknown=tuple(sorted(set(properties) - set(BY_NAME))),
            **{k: fields[k] for k in cls.__dataclass_fields__ if k in fields and k not in _COMPUTED},
        )


_COMPUTED = frozenset({"listeners", "advertised_listeners", "log_dirs", "zookeeper_connection_timeout_ms"})


def validate_topic_config(name: str, value: str) -> None:
    """Raises ConfigError unless `name` is a topic setting and `value` is in its range; where it changes nothing, unless
    `value` says what is done anyway.
    """
    setting = TOPIC_SETTINGS.get(name)
    if setting is None:
        _validate_inert(name, value)
        return
    convert(name, setting, value)
    if name.endswith(".replication.throttled.replicas") and not _THROTTLED_REPLICAS.match(value.strip()):
        raise ConfigError(
            f"Invalid value [{value.strip()}] for configuration {name}: {name} must be the literal '*' or a list of "
            "replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )


def _validate_inert(name: str, value: str) -> None:
    inert = INERT_TOPIC_SETTINGS.get(name)
    if inert is None:
        raise ConfigError(f"Unknown topic config name: {name}")
    if name == MESSAGE_FORMAT:
        release = _RELEASE.fullmatch(value.strip())
        if release is None or (int(release[1]), int(release[2])) < (0, 11):
            raise ConfigError(f"{name}={value!r}: must be a release of Kafka from 0.11.0 on, since {inert.because}")
        return
    least = None if inert.accepted or inert.kind != "long" else int(inert.default)
    plain = str(convert(name, Setting(name, inert.kind, None, least), value)).lower()
    if inert.accepted and plain not in inert.accepted:
        if name in _KAFKAS_REFUSALS:
            raise ConfigError(_KAFKAS_REFUSALS[name])
        accepted = " or ".join(inert.accepted)
        raise ConfigError(f"{name}={value!r}: highwater takes {accepted} only, since {inert.because}")


def without_effect(overrides: Mapping[str, str]) -> str:
    """The overrides of a topic that have no effect in highwater, as text for the broker's log; empty where all have
    one.
    """
    return ", ".join(f"{name}={value}" for name, value in overrides.items() if name in INERT_TOPIC_SETTINGS)


def validate_broker_config(name: str, value: str) -> None:
    """Raises ConfigError unless `value` is in the range of this broker setting."""
    setting = BY_NAME.get(name) or IDLE_SETTINGS.get(name)
    if setting is None:
        raise ConfigError(f"{name} is no setting of a broker")
    convert(name, setting, value)


def retake_topic_defaults(settings: Settings, dynamic: Mapping[str, str]) -> Settings:
    """Make the running broker's defaults for topics those of its file with `dynamic` on top, in place.

    Whatever resolves a topic's settings reads `topic_defaults` each time. Returns all settings as they would be with
    `dynamic` in the file. Raises ConfigError.
    """
    fresh = Settings.parse({**settings.given, **dynamic})
    live = settings.topic_defaults
    assert isinstance(live, dict)
    live.update(fresh.topic_defaults)
    return fresh


def validate_topic_configs(overrides: Mapping[str, str], settings: Settings) -> None:
    """Raises ConfigError where settings of one topic, each sound by itself, contradict each other."""
    least = topic_int(overrides, settings, "min.compaction.lag.ms")
    most = topic_int(overrides, settings, "max.compaction.lag.ms")
    if least > most:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
        )


def topic_int(overrides: Mapping[str, str], settings: Settings, name: str) -> int:
    """A topic's integer setting: the override if the topic has one, else the broker's default."""
    return int(overrides.get(name, settings.topic_defaults[name]))


def topic_text(overrides: Mapping[str, str], settings: Settings, name: str) -> str:
    """A topic's setting as text, resolved like `topic_int`."""
    return overrides.get(name, settings.topic_defaults[name]).strip()


def topic_bool(overrides: Mapping[str, str], settings: Settings, name: str) -> bool:
    """A topic's boolean setting, resolved like `topic_int`."""
    return overrides.get(name, settings.topic_defaults[name]).strip().lower() == "true"


def _endpoints(name: str, items: object) -> tuple[Endpoint, ...]:
    assert isinstance(items, list)
    out = []
    for item in items:
        match = _LISTENER.match(item)
        if match is None or int(match["port"]) > 65535 or not can_be_host(match["host"]):
            raise ConfigError(f"{name}={item!r}: must look like PLAINTEXT://host:9092")
        out.append(Endpoint(match["name"].upper(), match["host"].strip("[]"), int(match["port"])))
    if not out:
        raise ConfigError(f"{name} is empty: give at least one, for example PLAINTEXT://:9092")
    for place, endpoint in enumerate(out):
        if (first := next(i for i, other in enumerate(out) if other.name == endpoint.name)) != place:
            raise ConfigError(
                f"{name}: {items[first]} and {items[place]} are both called {endpoint.name}: "
                "Each listener must have a different name"
            )
    return tuple(out)


def _check_ports(listeners: Sequence[Endpoint]) -> None:
    """One listener for a port, or two of which one has an IPv4 and the other an IPv6 address, as in Kafka (KIP-797)."""
    by_port: dict[int, list[Endpoint]] = {}
    for endpoint in listeners:
        if endpoint.port:
            by_port.setdefault(endpoint.port, []).append(endpoint)
    for port, same in by_port.items():
        if len(same) > 1 and sorted(_ip_version(one.host) for one in same) != [4, 6]:
            names = " and ".join(one.name for one in same)
            raise ConfigError(
                f"listeners: {names} have the same port, {port}: Each listener must have a different port unless "
                "exactly one listener has an IPv4 address and the other IPv6 address"
            )


def _ip_version(host: str) -> int:
    """0 of a name, and of no host."""
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return 0


def _log_dirs(properties: Mapping[str, str], default: str) -> list[str]:
    """Of `log.dirs`, or else of `log.dir`; whichever counts has to name a folder, as with Kafka."""
    name = "log.dirs" if "log.dirs" in properties else "log.dir"
    found = [folder.strip() for folder in properties.get(name, default).split(",") if folder.strip()]
    if not found:
        raise ConfigError(f"{name} is empty: give at least one folder, for example /var/lib/highwater")
    return found


def _topic_defaults(values: Mapping[str, object]) -> dict[str, str]:
    out = {
        setting.topic_name: _text(values[setting.name])
        for setting in BY_NAME.values()
        if setting.topic_name is not None
    }
    out["segment.ms"] = _text(_first(values["log.roll.ms"], _scaled(values["log.roll.hours"], 3_600_000)))
    out["segment.jitter.ms"] = _text(
        _first(values["log.roll.jitter.ms"], _scaled(values["log.roll.jitter.hours"], 3_600_000))
    )
    out["retention.ms"] = _text(
        _first(
            values["log.retention.ms"],
            _scaled(values["log.retention.minutes"], 60_000),
            _scaled(values["log.retention.hours"], 3_600_000),
        )
    )
    out["flush.ms"] = _text(_first(values["log.flush.interval.ms"], _LONG_MAX))
    for name in ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"):
        out[name] = ""
    return out


def _first(*candidates: object) -> object:
    return next(c for c in candidates if c is not None)


def _scaled(value: object, factor: int) -> object:
    if value is None:
        return None
    assert isinstance(value, int)
    return -1 if value < 0 else value * factor


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value)
