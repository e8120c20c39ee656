"""Records of `__consumer_offsets` and `__transaction_state` as text, with the names and the order of Kafka's tool.

Pure. A record that cannot be read has the reason in the place of its key, and the dump goes on, where Kafka's tool may
end. Records of groups of the protocol of KIP-848 are none of this broker's, and named by their type alone.
Source: kafka.tools.DumpLogSegments (OffsetsMessageParser), kafka.coordinator.transaction.TransactionLog
(formatRecordKeyAndValue).
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import re
from typing import Any, Final

from broker.wire.coordinator_records.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    readable_version,
)
from broker.wire.coordinator_records.offsets_topic import (
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    read_key,
)
from broker.wire.coordinator_records.transaction_log import TransactionLogKey, TransactionLogValue, TransactionStatus
from broker.wire.coordinator_records.versioned import UnknownRecordVersion, version_of
from broker.wire.fields import SPEC
from broker.wire.primitives import MalformedFrame
from broker.wire.records import Record

_TOMBSTONE: Final = "<DELETE>"
_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-f]{4}|.)")
_EMBEDDED: Final[dict[str, type[ConsumerProtocolSubscription | ConsumerProtocolAssignment]]] = {
    "subscription": ConsumerProtocolSubscription,
    "assignment": ConsumerProtocolAssignment,
}


def offsets(record: Record) -> tuple[str, str | None]:
    """Key and value of a record of `__consumer_offsets`, as JSON."""
    try:
        key = read_key(_key(record))
        key_version = version_of(_key(record))
        key_text = _json({"type": str(key_version), "data": _fields(key, key_version)})
        if record.value is None:
            return key_text, _TOMBSTONE
        value = (OffsetCommitValue if isinstance(key, OffsetCommitKey) else GroupMetadataValue).decode(record.value)
        version = version_of(record.value)
        data = _fields(value, version)
        if isinstance(value, GroupMetadataValue) and value.protocol_type == PROTOCOL_TYPE:
            for member in data["members"]:
                _open_embedded(member)
        return key_text, _json({"version": str(version), "data": data})
    except UnknownRecordVersion as unknown:
        if unknown.what in (OffsetCommitValue.__name__, GroupMetadataValue.__name__):
            return _failed(record, str(unknown)), None
        return f"Unknown record type {unknown.version} at offset {record.offset}, skipping.", None
    except MalformedFrame as bad:
        return _failed(record, str(bad)), None


def transactions(record: Record) -> tuple[str, str | None]:
    """Key and value of a record of `__transaction_state`."""
    try:
        key = TransactionLogKey.decode(_key(record))
        key_text = f"transaction_metadata::transactionalId={key.transactional_id}"
        if record.value is None:
            return key_text, _TOMBSTONE
        return key_text, _transaction(TransactionLogValue.decode(record.value))
    except UnknownRecordVersion as unknown:
        if unknown.what == TransactionLogKey.__name__:
            return f"unknown::version={unknown.version}", None
        return _failed(record, str(unknown)), None
    except (MalformedFrame, ValueError) as bad:
        return _failed(record, str(bad)), None


def _key(record: Record) -> bytes:
    if record.key is None:
        raise MalformedFrame("key", 0, None, "null where a key is required")
    return record.key


def _failed(record: Record, reason: str) -> str:
    return f"Error at offset {record.offset}, skipping. {reason}"


def _transaction(value: TransactionLogValue) -> str:
    """Raises ValueError for a status that Kafka does not have."""
    status = TransactionStatus(value.transaction_status)
    listed = () if status is TransactionStatus.EMPTY else value.transaction_partitions or ()
    partitions = ",".join(f"{one.topic}-{partition}" for one in listed for partition in one.partition_ids)
    return (
        f"producerId:{value.producer_id},producerEpoch:{value.producer_epoch},state={status.kafkas_name},"
        f"partitions=[{partitions}],txnLastUpdateTimestamp={value.transaction_last_update_timestamp_ms},"
        f"txnTimeoutMs={value.transaction_timeout_ms}"
    )


def _open_embedded(member: dict[str, Any]) -> None:
    """Subscription and assignment of a consumer in words; bytes that cannot be read stay bytes, as in Kafka's tool."""
    for name, cls in _EMBEDDED.items():
        raw = base64.b64decode(member[name])
        with contextlib.suppress(MalformedFrame):
            member[name] = _fields(cls.decode(raw), readable_version(raw))


def _fields(value: Any, version: int) -> dict[str, Any]:
    """The fields that this version has, by Kafka's names and in its order."""
    return {
        _camel(field.name): _plain(getattr(value, field.name), version)
        for field in dataclasses.fields(value)
        if version in field.metadata[SPEC].versions
    }


def _plain(value: Any, version: int) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, list):
        return [_plain(element, version) for element in value]
    return _fields(value, version) if dataclasses.is_dataclass(value) else value


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _json(value: dict[str, Any]) -> str:
    """As Jackson writes it: without blanks, all that is no ASCII as it is, control characters with capital digits."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _ESCAPE.sub(lambda found: found[0][:2] + found[0][2:].upper(), text)
