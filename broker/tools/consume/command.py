"""Options of `highwater consume`, and the way from the consumer to standard output.

Exit codes: 0, also after --timeout-ms without a record and where nobody reads the output any more; 1 for a wrong
command line or when reading fails; 130 after Ctrl-C and 143 after SIGTERM, both with offsets committed.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Final, NamedTuple

from broker.tools.client.admin import TopicPartition
from broker.tools.client.cluster import Cluster
from broker.tools.client.committed_reads import Shown
from broker.tools.client.consumer import Consumer
from broker.tools.client.errors import ToolError, java_name
from broker.tools.client.fetcher import fetch_settings
from broker.tools.client.membership import group_settings
from broker.tools.client.numbers import whole_number
from broker.tools.client.offsets import list_offsets
from broker.tools.client.properties import Properties, key_values
from broker.tools.client.settings import client_settings
from broker.tools.consume.formatter import Formatter, formatter
from broker.tools.options import Parser, given, warn_unread, whole
from broker.tools.output import forget_output
from broker.tools.text import topic_filter
from broker.wire.list_offsets_timestamps import EARLIEST, LATEST

_POLL: Final = 1.0
_FORMATTER_NAMES: Final = ("key-deserializer", "value-deserializer")


class Stopped(BaseException):
    """SIGINT or SIGTERM came."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


class _Unwritable(Exception):
    """Standard output takes no more."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


class Start(NamedTuple):
    """What is read: topics by name or pattern, or one partition from an offset or a special time."""

    topics: list[str] | re.Pattern[str]
    partition: int | None
    offset: int


def parser() -> Parser:
    """The options of kafka-console-consumer.sh."""
    made = Parser("consume", "Print records of topics.")
    made.bootstrap(config="--consumer.config")
    add = made.add_argument
    add("--topic", metavar="TOPIC", help="what to read")
    add("--include", metavar="REGEX", help="what to read: topics that match, also such as come later")
    add("--whitelist", metavar="REGEX", help="the older name of --include")
    add("--partition", type=whole, metavar="N", help="only this one, from its end unless --offset is given")
    add("--offset", default="latest", metavar="OFFSET", help="a number, earliest or latest; with --partition")
    add("--from-beginning", action="store_true", help="from the first record, where the group has no offset")
    add("--group", metavar="GROUP", help="join this group, and commit what was printed")
    add("--max-messages", type=whole, metavar="N", help="end after so many")
    add("--timeout-ms", type=whole, metavar="MS", help="end when no record came for so long")
    add("--isolation-level", default="read_uncommitted", metavar="LEVEL", help="read_committed or read_uncommitted")
    add("--consumer-property", action="append", default=[], metavar="NAME=VALUE", help="of the consumer")
    add("--formatter", metavar="CLASS", help="DefaultMessageFormatter or NoOpMessageFormatter")
    add(
        "--property",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of the formatter: print.key, "
        "print.offset, print.partition, print.timestamp, print.headers, print.value, key.separator, line.separator, "
        "headers.separator, null.literal, key.deserializer, value.deserializer, headers.deserializer",
    )
    add("--formatter-config", metavar="FILE", help="properties file for the formatter")
    for name in _FORMATTER_NAMES:
        add(f"--{name}", metavar="CLASS", help="the same as the property of the formatter")
    add("--skip-message-on-error", action="store_true", help="go on behind a record that cannot be printed")
    add("--enable-systest-events", action="store_true", help="accepted; nothing more is printed")
    return made


def start_of(made: Parser, options: argparse.Namespace) -> Start:
    """Refuses options that contradict each other."""
    include = options.include or options.whitelist
    if (options.topic is None) == (include is None):
        made.error("Exactly one of --include/--topic is required. ")
    if options.partition is not None and options.topic is None:
        made.error("The topic is required when partition is specified.")
    if options.partition is not None and options.partition < 0:
        made.error(f"--partition {options.partition}: it must be 0 or more")
    if options.partition is not None and options.from_beginning and given(options, "offset"):
        made.error("Options from-beginning and offset cannot be specified together.")
    if options.partition is None and given(options, "offset"):
        made.error("The partition is required when offset is specified.")
    offset = EARLIEST if options.from_beginning else LATEST
    match options.offset.lower():
        case "earliest":
            offset = EARLIEST
        case "latest":
            pass
        case text if (number := whole_number(text, 64)) is not None and number >= 0:
            offset = number
        case _:
            made.error(
                f"The provided offset value '{options.offset}' is incorrect. Valid values are "
                "'earliest', 'latest', or a non-negative long."
            )
    return Start([options.topic] if include is None else topic_filter(include), options.partition, offset)


def properties_of(made: Parser, options: argparse.Namespace) -> Properties:
    """What the consumer is told; `group.id` is in it only where one was given."""
    file, words = Properties.load(getattr(options, "consumer.config")), key_values(options.consumer_property)
    groups = {options.group, file.text("group.id", "") or None, words.get("group.id")} - {None}
    if len(groups) > 1:
        shown = ", ".join(f"'{group}'" for group in sorted(groups))
        made.error(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', "
            f"or via '--consumer.config') do not match. Detected group ids: {shown}"
        )
    if groups and options.partition is not None:
        made.error("Options group and partition cannot be specified together.")
    file.put(words)
    file.put({"bootstrap.servers": options.bootstrap_server})
    for group in groups:
        file.put({"group.id": group})
    if "auto.offset.reset" in file:
        reset = file.text("auto.offset.reset", "")
        if options.from_beginning and reset != "earliest":
            made.error(
                f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', "
                "please remove one option"
            )
    else:
        file.put({"auto.offset.reset": "earliest" if options.from_beginning else "latest"})
    if given(options, "isolation-level") or "isolation.level" not in file:
        file.put({"isolation.level": options.isolation_level})
    return file


def run(arguments: Sequence[str]) -> int:
    """Print records until something ends it; returns the exit code."""
    made = parser()
    options = made.parse_args(arguments)
    try:
        start = start_of(made, options)
        words = Properties.load(options.formatter_config).values() | key_values(options.property)
        for name in _FORMATTER_NAMES:
            if (value := getattr(options, name.replace("-", "_"))) is not None:
                words[name.replace("-", ".")] = value
        shown = formatter(options.formatter, words)
        properties = properties_of(made, options)
        settings = client_settings(properties, "console-consumer")
        with Cluster(settings) as cluster:
            consumer = _consumer(cluster, properties, start)
            warn_unread(properties)
            for name in shown.unknown:
                print(f"WARN formatter property {name} is not known and has no effect", file=sys.stderr)
            return Printer(consumer, shown, options).run()
    except ToolError as error:
        print(java_name(error), file=sys.stderr)
        return 1


def _consumer(cluster: Cluster, properties: Properties, start: Start) -> Consumer:
    settings = fetch_settings(properties)
    group = group_settings(properties)
    commits = properties.flag("enable.auto.commit", bool(group.group_id))
    interval = properties.number("auto.commit.interval.ms", 5000) / 1000
    max_age = properties.number("metadata.max.age.ms", 300_000) / 1000
    if start.partition is None:
        return Consumer(
            cluster,
            settings,
            topics=start.topics,
            group=group if group.group_id else None,
            commit_interval=interval if commits else None,
            metadata_max_age=max_age,
        )
    assert isinstance(start.topics, list)
    where = (start.topics[0], start.partition)
    offset = start.offset
    if offset < 0:
        offset = list_offsets(cluster, {where: offset}, settings.isolation)[where].offset
    return Consumer(cluster, settings, positions={where: offset})


class Printer:
    """From the consumer to standard output, until a limit, a signal, or nobody reads."""

    def __init__(self, consumer: Consumer, shown: Formatter, options: argparse.Namespace) -> None:
        self._consumer = consumer
        self._shown = shown
        self._most = -1 if options.max_messages is None else options.max_messages
        self._idle_s = None if options.timeout_ms is None or options.timeout_ms < 0 else options.timeout_ms / 1000
        self._skip = options.skip_message_on_error
        self._count = 0
        self._buffered: dict[TopicPartition, int] = {}
        """Where to read on behind what was given to standard output, and may still be lost there."""

    def run(self) -> int:
        """The exit code. What was printed, and nothing else, counts as read, whatever ends it."""
        code = 0
        try:
            code = self._to_the_end()
        except _Unwritable as unwritable:
            code = 0 if isinstance(unwritable.error, BrokenPipeError) else 1
            why = "" if code == 0 else f" ({unwritable.error.strerror})"
            print(f"Unable to write to standard out, closing consumer.{why}", file=sys.stderr)
            forget_output()
        finally:
            try:
                self._consumer.close()
            finally:
                print(f"Processed a total of {self._count} messages", file=sys.stderr)
        return code

    def _to_the_end(self) -> int:
        try:
            with _signals():
                return self._print()
        except Stopped as stopped:
            code = stopped.code
        except ToolError as error:
            print(f"ERROR Error processing message, terminating consumer process: {java_name(error)}", file=sys.stderr)
            code = 1
        self._flush()
        return code

    def _write(self, data: bytes) -> None:
        try:
            sys.stdout.buffer.write(data)
        except OSError as error:
            raise _Unwritable(error) from None

    def _flush(self) -> None:
        try:
            sys.stdout.buffer.flush()
        except OSError as error:
            raise _Unwritable(error) from None
        self._consumer.consumed.update(self._buffered)
        self._buffered.clear()

    def _print(self) -> int:
        heard = time.monotonic()
        while self._count < self._most or self._most < 0:
            left = _POLL if self._idle_s is None else heard + self._idle_s - time.monotonic()
            chunks = self._consumer.poll(max(min(left, _POLL), 0.0))
            if not chunks and self._idle_s is not None and time.monotonic() - heard >= self._idle_s:
                print(
                    "ERROR Error processing message, terminating consumer process: "
                    "org.apache.kafka.common.errors.TimeoutException",
                    file=sys.stderr,
                )
                return 0
            for chunk in chunks:
                if self._count == self._most:
                    break
                for record in chunk.records:
                    if self._count == self._most:
                        break
                    self._write(self._formatted(chunk.where, record))
                    self._count += 1
                    self._buffered[chunk.where] = record.record.offset + 1
                else:
                    self._buffered[chunk.where] = chunk.next_offset
                heard = time.monotonic() if chunk.records else heard
            self._flush()
        return 0

    def _formatted(self, where: TopicPartition, record: Shown) -> bytes:
        try:
            return self._shown.format(where, record)
        except ToolError as error:
            if not self._skip:
                raise
            print(f"ERROR Error processing message, skipping this message: {error}", file=sys.stderr)
            return b""


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """SIGINT and SIGTERM raise Stopped here, once: what comes after the first is for whoever was there before."""

    def stop(number: int, _: FrameType | None) -> None:
        restore()
        raise Stopped(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    try:
        yield
    finally:
        restore()
