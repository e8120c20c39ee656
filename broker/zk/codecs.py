"""Kafka's JSON layouts of cluster-wide znodes ↔ values: brokers, controller, cluster id, configs, producer ids. Pure.

Decoding takes any layout version whose fields we know and ignores fields that we don't; encoding over an older text
keeps what that text had besides ours. Source: kafka.zk.ZkData (3.9).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from broker.core.controller.cluster_state import Broker, BrokerEndpoint
from broker.model.ids import BrokerId

BROKER_VERSION = 5
_NO_KRAFT_EPOCH = -1
INT32_MAX = 2**31 - 1
_OWN = "highwater"
"""What Kafka's brokers don't write into their registration, and ignore in ours."""


class MalformedZnode(Exception):
    """A znode's bytes are not what Kafka writes there; the text names the znode and what is wrong."""


def encode_json(value: Mapping[str, Any]) -> bytes:
    """As Kafka writes znodes: no spaces."""
    return json.dumps(value, separators=(",", ":")).encode()


def decode_json(data: bytes, what: str) -> dict[str, Any]:
    """The JSON object in a znode; `what` names the znode in the error."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MalformedZnode(f"{what}: not JSON ({error}): {data[:80]!r}") from None
    if not isinstance(value, dict):
        raise MalformedZnode(f"{what}: must be a JSON object, found {data[:80]!r}")
    return value


def int32(value: object) -> int:
    """An id or epoch, which has to go into requests as it is. Raises ValueError for all that is no 32-bit integer."""
    if not isinstance(value, int) or isinstance(value, bool) or not -INT32_MAX <= value <= INT32_MAX:
        raise ValueError(f"{value!r} is no 32-bit integer")
    return value


def encode_broker(broker: Broker, timestamp_ms: int) -> bytes:
    """`/brokers/ids/N`, version 5. host and port repeat the first plaintext endpoint, for old tools."""
    plain = next((e for e in broker.endpoints if e.security_protocol == "PLAINTEXT"), None)
    fields: dict[str, Any] = {
        "features": {},
        "listener_security_protocol_map": {e.listener: e.security_protocol for e in broker.endpoints},
        "endpoints": [f"{e.listener}://{_bracketed(e.host)}:{e.port}" for e in broker.endpoints],
        "jmx_port": -1,
        "port": plain.port if plain else -1,
        "host": plain.host if plain else None,
        "version": BROKER_VERSION,
        "timestamp": str(timestamp_ms),
    }
    if broker.rack is not None:
        fields["rack"] = broker.rack
    if broker.reports:
        fields[_OWN] = {"reports": 1}
    return encode_json(fields)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def decode_broker(broker_id: BrokerId, data: bytes, epoch: int) -> Broker:
    """Any version 1-5. epoch: the znode's czxid. What cannot go into requests to the other brokers is malformed too."""
    what = f"/brokers/ids/{broker_id}"
    fields = decode_json(data, what)
    rack, own = fields.get("rack"), fields.get(_OWN)
    reports = isinstance(own, dict) and own.get("reports") == 1
    try:
        return Broker(int32(broker_id), epoch, _endpoints(fields), None if rack is None else _text(rack), reports)
    except (AttributeError, OverflowError, TypeError, ValueError) as error:
        raise MalformedZnode(f"{what}: {error}: {data[:120]!r}") from None


def _endpoints(fields: Mapping[str, Any]) -> tuple[BrokerEndpoint, ...]:
    """At least one. Raises AttributeError, OverflowError, TypeError, ValueError."""
    protocols = fields.get("listener_security_protocol_map") or {}
    endpoints: list[BrokerEndpoint] = []
    for text in fields.get("endpoints") or []:
        listener, separator, address = _text(text).partition("://")
        host, colon, port = address.rpartition(":")
        if not separator or not colon or not port.isdecimal():
            raise ValueError(f"endpoint {text!r} must look like PLAINTEXT://host:9092")
        protocol = _text(protocols.get(listener, listener))
        endpoints.append(BrokerEndpoint(listener, host.strip("[]"), int32(int(port)), protocol))
    if not endpoints:
        if "host" not in fields or "port" not in fields:
            raise ValueError("has neither endpoints nor host and port")
        endpoints.append(BrokerEndpoint("PLAINTEXT", _text(fields["host"]), int32(int(fields["port"])), "PLAINTEXT"))
    return tuple(endpoints)


def _text(value: object) -> str:
    """Raises ValueError where it is no text that goes into a request."""
    text = str(value)
    text.encode()
    return text


def encode_controller(broker_id: BrokerId, timestamp_ms: int) -> bytes:
    """`/controller`, version 2."""
    return encode_json(
        {
            "version": 2,
            "brokerid": broker_id,
            "timestamp": str(timestamp_ms),
            "kraftControllerEpoch": _NO_KRAFT_EPOCH,
        }
    )


def decode_controller(data: bytes) -> BrokerId:
    """The controller's broker id; the oldest layout is the bare number."""
    text = data.decode("utf-8", "replace").strip()
    if text.lstrip("-").isdecimal():
        return int(text)
    value = decode_json(data, "/controller").get("brokerid")
    if not isinstance(value, int):
        raise MalformedZnode(f"/controller: brokerid must be a number, found {value!r}")
    return value


def encode_note(by: int) -> bytes:
    """`/highwater/suspicions/<broker>-<czxid>` and `shutdowns/…`; by: a controller epoch, or the broker that took over.

    For people.
    """
    return encode_json({"version": 1, "by": by})


def encode_controller_epoch(epoch: int) -> bytes:
    """`/controller_epoch` is the number in ASCII."""
    return str(epoch).encode()


def decode_controller_epoch(data: bytes) -> int:
    """Raises MalformedZnode."""
    text = data.decode("utf-8", "replace").strip()
    if not text.isdecimal():
        raise MalformedZnode(f"/controller_epoch: must be a number, found {data[:40]!r}")
    return int(text)


def encode_cluster_id(cluster_id: str) -> bytes:
    """`/cluster/id`."""
    return encode_json({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    """Raises MalformedZnode."""
    value = decode_json(data, "/cluster/id").get("id")
    if not isinstance(value, str):
        raise MalformedZnode(f"/cluster/id: id must be text, found {value!r}")
    return value


def encode_config(config: Mapping[str, str], old: bytes | None = None) -> bytes:
    """`/config/<type>/<name>`: overrides only."""
    kept = decode_json(old, "/config") if old else {}
    return encode_json({**kept, "version": 1, "config": dict(sorted(config.items()))})


def decode_config(data: bytes | None, what: str) -> dict[str, str]:
    """No znode, or an empty one, is no override."""
    if not data:
        return {}
    config = decode_json(data, what).get("config") or {}
    if not isinstance(config, dict):
        raise MalformedZnode(f"{what}: config must be an object, found {config!r}")
    return {str(name): str(value) for name, value in config.items() if value is not None}


def encode_config_change(entity_path: str) -> bytes:
    """`/config/changes/config_change_<seq>`; entity_path: `topics/T`."""
    return encode_json({"version": 2, "entity_path": entity_path})


def decode_config_change(data: bytes) -> str | None:
    """Entity path, from version 2 and version 1 alike; None when it names none."""
    fields = decode_json(data, "/config/changes")
    if isinstance(fields.get("entity_path"), str):
        return str(fields["entity_path"])
    if isinstance(fields.get("entity_type"), str) and isinstance(fields.get("entity_name"), str):
        return f"{fields['entity_type']}/{fields['entity_name']}"
    return None


_LOG_DIR_FAILURE = 1


def encode_log_dir_event(broker: BrokerId) -> bytes:
    """`/log_dir_event_notification/log_dir_event_<seq>`: a broker has replicas whose files failed."""
    return encode_json({"version": 1, "broker": broker, "event": _LOG_DIR_FAILURE})


def decode_log_dir_event(data: bytes) -> BrokerId | None:
    """The broker, None when it names none."""
    broker = decode_json(data, "/log_dir_event_notification").get("broker")
    return broker if isinstance(broker, int) else None


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """Producer ids [first, last], last included, handed to one broker."""

    broker_id: BrokerId
    first: int
    last: int


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    """Kafka writes the bounds as text."""
    return encode_json(
        {"version": 1, "broker": block.broker_id, "block_start": str(block.first), "block_end": str(block.last)}
    )


def decode_producer_id_block(data: bytes) -> ProducerIdBlock:
    """The block in `/latest_producer_id_block`. Raises MalformedZnode."""
    fields = decode_json(data, "/latest_producer_id_block")
    try:
        return ProducerIdBlock(int(fields["broker"]), int(fields["block_start"]), int(fields["block_end"]))
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise MalformedZnode(f"/latest_producer_id_block: {error!r} in {data[:120]!r}") from None
