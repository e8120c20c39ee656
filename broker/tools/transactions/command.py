"""Commands and options of `highwater transactions`. Exit codes: 0, or 1 for whatever went wrong."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.tools.client.admin import TopicPartition, describe_topics
from broker.tools.client.cluster import Cluster
from broker.tools.client.errors import BrokerError, ToolError
from broker.tools.options import Parser, admin_settings, whole, whole16, whole64
from broker.tools.transactions.requests import (
    Transaction,
    abort,
    describe_producers,
    describe_transaction,
    list_transactions,
)
from broker.wire.errors import ErrorCode
from broker.wire.messages.describe_producers import ProducerState

_LISTED: Final = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
_DESCRIBED: Final = (
    *("CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState", "TransactionTimeoutMs"),
    *("CurrentTransactionStartTimeMs", "TransactionDurationMs", "TopicPartitions"),
)
_PRODUCERS: Final = (
    *("ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp"),
    "CurrentTransactionStartOffset",
)
_HANGING: Final = (
    *("Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset", "LastTimestamp"),
    "Duration(min)",
)
_MINUTE_MS: Final = 60_000


class Failure(ToolError):
    """Its text is printed as it stands."""


class Open(NamedTuple):
    """An open transaction of a partition."""

    where: TopicPartition
    producer: ProducerState


def parser() -> Parser:
    """The commands of kafka-transactions.sh."""
    made = Parser("transactions", "Look at transactions and producers, and end hanging transactions.")
    made.bootstrap()
    commands = made.add_subparsers(required=True, metavar="COMMAND", dest="command", parser_class=_Command)
    listing = commands.add_parser("list", help="transactions of all coordinators")
    listing.add_argument("--duration-filter", type=whole64, default=-1, metavar="MS", help="only those older than this")
    one = commands.add_parser("describe", help="what the coordinator knows of a transactional id")
    one.add_argument("--transactional-id", required=True, metavar="ID")
    producers = commands.add_parser("describe-producers", help="producers of a partition")
    producers.add_argument("--broker-id", type=whole, metavar="N", help="as this replica knows them, not the leader")
    ending = commands.add_parser("abort", help="end a hanging transaction")
    for command in (producers, ending):
        command.add_argument("--topic", required=True, metavar="TOPIC")
        command.add_argument("--partition", required=True, type=whole, metavar="N")
    ending.add_argument("--start-offset", type=whole64, metavar="OFFSET", help="where it begins; all that is needed")
    for name, kind in (("producer-id", whole64), ("producer-epoch", whole16), ("coordinator-epoch", whole)):
        ending.add_argument(f"--{name}", type=kind, metavar="N", help="instead of --start-offset, all three")
    hanging = commands.add_parser("find-hanging", help="transactions that no coordinator will end")
    hanging.add_argument("--broker-id", type=whole, metavar="N", help="partitions with a replica there")
    hanging.add_argument("--max-transaction-timeout", type=whole, default=15, metavar="MINUTES")
    hanging.add_argument("--topic", metavar="TOPIC")
    hanging.add_argument("--partition", type=whole, metavar="N")
    return made


class _Command(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        print(f"{message}\n`{self.prog} --help` lists the options", file=sys.stderr)
        self.exit(1)


def run(arguments: Sequence[str]) -> int:
    """Carry one command line out; returns the exit code."""
    options = parser().parse_args(arguments)
    try:
        with Cluster(admin_settings(options, "transactions", options.command_config)) as cluster:
            rows = _rows(cluster, options)
    except ToolError as error:
        print(error, file=sys.stderr)
        return 1
    for line in table(rows):
        print(line)
    return 0


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as their widest cell, each followed by a tab, as Kafka's tool prints them."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    return ["".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)) for row in rows]


def _rows(cluster: Cluster, options: argparse.Namespace) -> list[Sequence[str]]:
    match options.command:
        case "list":
            return _list(cluster, options)
        case "describe":
            return _describe(cluster, options.transactional_id)
        case "describe-producers":
            return _describe_producers(cluster, options)
        case "abort":
            _abort(cluster, options)
            return []
        case _:
            return _find_hanging(cluster, options)


def _failed(what: str, error: ToolError) -> Failure:
    reason = str(error).rstrip(".")
    return Failure(f"{what}: {reason}. Enable debug logging for additional detail.")


def _list(cluster: Cluster, options: argparse.Namespace) -> list[Sequence[str]]:
    try:
        found = list_transactions(cluster, longer_than_ms=options.duration_filter)
    except ToolError as error:
        raise _failed("Failed to list transactions", error) from None
    return [
        _LISTED,
        *(
            (one.transactional_id, str(coordinator), str(one.producer_id), one.transaction_state)
            for coordinator, listed in found.items()
            for one in listed
        ),
    ]


def _describe(cluster: Cluster, transactional_id: str) -> list[Sequence[str]]:
    try:
        found = describe_transaction(cluster, transactional_id)
    except ToolError as error:
        what = f"Failed to describe transaction state of transactional-id `{transactional_id}`"
        raise _failed(what, error) from None
    described = found.described
    began = described.transaction_start_time_ms
    lasts = str(int(time.time() * 1000) - began) if began >= 0 else "None"
    return [
        _DESCRIBED,
        (
            str(found.coordinator),
            transactional_id,
            str(described.producer_id),
            str(described.producer_epoch),
            described.transaction_state,
            str(described.transaction_timeout_ms),
            str(began) if began >= 0 else "None",
            lasts,
            ",".join(f"{topic}-{partition}" for topic, partition in found.partitions),
        ),
    ]


def _describe_producers(cluster: Cluster, options: argparse.Namespace) -> list[Sequence[str]]:
    where = (options.topic, options.partition)
    try:
        found = describe_producers(cluster, [where], options.broker_id)[where]
    except ToolError as error:
        on = "leader" if options.broker_id is None else f"broker {options.broker_id}"
        what = f"Failed to describe producers for partition {where[0]}-{where[1]} on {on}"
        raise _failed(what, error) from None
    return [
        _PRODUCERS,
        *(
            (
                str(one.producer_id),
                str(one.producer_epoch),
                str(one.coordinator_epoch),
                str(one.last_sequence),
                str(one.last_timestamp),
                str(one.current_txn_start_offset) if one.current_txn_start_offset >= 0 else "None",
            )
            for one in found
        ),
    ]


def _abort(cluster: Cluster, options: argparse.Namespace) -> None:
    where = (options.topic, options.partition)
    name = f"{where[0]}-{where[1]}"
    if options.start_offset is None and options.producer_id is None:
        raise Failure(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or "
            "with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    if options.start_offset is None:
        for option in ("producer-epoch", "coordinator-epoch"):
            if getattr(options, option.replace("-", "_")) is None:
                raise Failure(f"Missing required argument --{option}")
        spec = (options.producer_id, options.producer_epoch, options.coordinator_epoch)
    else:
        try:
            producers = describe_producers(cluster, [where])[where]
        except ToolError as error:
            raise _failed(f"Failed to validate producer state for partition {name}", error) from None
        begun = [one for one in producers if one.current_txn_start_offset == options.start_offset]
        if not begun:
            raise Failure(
                f"Could not find any open transactions starting at offset {options.start_offset} on partition {name}"
            )
        spec = (begun[0].producer_id, begun[0].producer_epoch, begun[0].coordinator_epoch)
    try:
        abort(cluster, where, *spec)
    except ToolError as error:
        what = f"producerId={spec[0]}, producerEpoch={spec[1]}, coordinatorEpoch={spec[2]}"
        raise _failed(f"Failed to abort transaction of {name} ({what})", error) from None


def _find_hanging(cluster: Cluster, options: argparse.Namespace) -> list[Sequence[str]]:
    if options.topic is None and options.broker_id is None:
        raise Failure(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
        )
    if options.partition is not None and options.topic is None:
        raise Failure("The --partition argument requires --topic to be provided")
    now = int(time.time() * 1000)
    partitions = _partitions(cluster, options)
    try:
        producers = describe_producers(cluster, partitions, options.broker_id)
    except ToolError as error:
        raise _failed(f"Failed to describe producers for {len(partitions)} partitions", error) from None
    late = [
        Open(where, one)
        for where, found in sorted(producers.items())
        for one in found
        if one.current_txn_start_offset >= 0 and now - one.last_timestamp > options.max_transaction_timeout * _MINUTE_MS
    ]
    return [_HANGING, *(_hanging_row(one, now) for one in _without_coordinator(cluster, late))]


def _partitions(cluster: Cluster, options: argparse.Namespace) -> list[TopicPartition]:
    if options.partition is not None:
        return [(options.topic, options.partition)]
    try:
        topics = describe_topics(cluster, None if options.topic is None else [options.topic])
    except ToolError as error:
        raise _failed("Failed to describe topics", error) from None
    return [
        (name, one.partition_index)
        for name, topic in topics.items()
        for one in topic.partitions
        if options.broker_id is None or options.broker_id in one.replica_nodes
    ]


def _without_coordinator(cluster: Cluster, late: Sequence[Open]) -> list[Open]:
    """Those of which no coordinator will write a marker."""
    if not late:
        return []
    ids = {one.producer.producer_id for one in late}
    names = {
        one.producer_id: one.transactional_id
        for listed in list_transactions(cluster, producer_ids=ids).values()
        for one in listed
        if one.producer_id in ids
    }
    known: dict[str, Transaction | None] = {}
    for name in names.values():
        try:
            known[name] = describe_transaction(cluster, name)
        except BrokerError as error:
            if error.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise _failed(f"Failed to describe {len(names)} transactions", error) from None
            known[name] = None
    return [one for one in late if not _will_end(one, known.get(names.get(one.producer.producer_id, "")))]


def _will_end(one: Open, transaction: Transaction | None) -> bool:
    return transaction is not None and one.where in transaction.partitions


def _hanging_row(one: Open, now: int) -> tuple[str, ...]:
    producer = one.producer
    numbers = (
        one.where[1],
        producer.producer_id,
        producer.producer_epoch,
        producer.coordinator_epoch,
        producer.current_txn_start_offset,
        producer.last_timestamp,
        (now - producer.last_timestamp) // _MINUTE_MS,
    )
    return (one.where[0], *map(str, numbers))
