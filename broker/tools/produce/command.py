"""Options of `highwater produce`, and the way from standard input to the producer.

Exit codes: 0 when every record was acknowledged (with acks=0: sent), 1 otherwise; 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from broker.tools.client.cluster import Cluster
from broker.tools.client.errors import ToolError, java_name
from broker.tools.client.producer import Producer, Sent, producer_settings
from broker.tools.client.properties import Properties, key_values
from broker.tools.client.settings import client_settings
from broker.tools.client.waits import readable
from broker.tools.options import Parser, given, warn_unread, whole
from broker.tools.produce.reader import LineReader, Lines

_READ_BYTES: Final = 1 << 16
# Option, what it sets of the producer, default, what it is.
_MERGED: Final = (
    ("timeout", "linger.ms", "1000", "ms that a record may wait for others"),
    ("request-required-acks", "acks", "-1", "0, 1, or -1 and all"),
    ("request-timeout-ms", "request.timeout.ms", "1500", "ms that a request may take"),
    ("message-send-max-retries", "retries", "3", "further tries of a batch"),
    ("retry-backoff-ms", "retry.backoff.ms", "100", "ms between tries"),
    ("max-memory-bytes", "buffer.memory", "33554432", "bytes that may wait to be sent"),
    ("batch-size", "batch.size", "16384", "bytes of a batch"),
    ("max-partition-memory-bytes", "batch.size", "16384", "the same, and stronger"),
    ("max-block-ms", "max.block.ms", "60000", "ms to wait for a topic"),
)
_ACCEPTED: Final = (("socket-buffer-size", "the kernel chooses it"), ("metadata-expiry-ms", "not needed here"))
_READERS: Final = ("kafka.tools.ConsoleProducer$LineMessageReader", "org.apache.kafka.tools.LineMessageReader")


def parser() -> Parser:
    """The options of kafka-console-producer.sh."""
    made = Parser("produce", "Send each line of standard input as a record.")
    add = made.add_argument
    add("--topic", required=True, metavar="TOPIC", help="where records go")
    made.bootstrap(config="--producer.config", required=False)
    add("--broker-list", metavar="HOST:PORT,…", help="the older name of --bootstrap-server")
    add("--sync", action="store_true", help="send records one by one, and end at the first that is not acknowledged")
    add("--compression-codec", nargs="?", const="gzip", metavar="CODEC", help="none, gzip, snappy, lz4 or zstd")
    for name, _, default, what in _MERGED:
        add(f"--{name}", metavar="VALUE", help=f"{what}; {default} by default")
    for name, what in _ACCEPTED:
        add(f"--{name}", type=whole, metavar="VALUE", help=f"accepted; {what}")
    add("--line-reader", metavar="CLASS", help="only Kafka's LineMessageReader is there")
    add(
        "--property",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of the reader: parse.key, key.separator, "
        "parse.headers, headers.delimiter, headers.separator, headers.key.separator, ignore.error, null.marker",
    )
    add("--reader-config", metavar="FILE", help="properties file for the reader")
    add("--producer-property", action="append", default=[], metavar="NAME=VALUE", help="of the producer")
    return made


def properties_of(options: argparse.Namespace) -> Properties:
    """What the producer is told, the stronger over the weaker: option, --producer-property, file, default."""
    properties = Properties.load(getattr(options, "producer.config"))
    properties.put(key_values(options.producer_property))
    properties.put({"bootstrap.servers": options.bootstrap_server or options.broker_list})
    properties.put({"compression.type": options.compression_codec or "none"})
    for name, setting, default, _ in _MERGED:
        if given(options, name):
            properties.put({setting: getattr(options, name.replace("-", "_"))})
        elif setting not in properties:
            properties.put({setting: default})
    return properties


def run(arguments: Sequence[str]) -> int:
    """Read standard input to its end; returns the exit code."""
    made = parser()
    options = made.parse_args(arguments)
    if sys.stdin is None:
        made.error("standard input is closed: records are read from it")
    if options.bootstrap_server is None and options.broker_list is None:
        made.error("Missing required option(s) [bootstrap-server]")
    if options.line_reader not in (None, *_READERS):
        made.error(
            f"--line-reader {options.line_reader}: classes of Java cannot be loaded; only {_READERS[0]} is there"
        )
    failed = 0
    cause: ToolError | None = None

    def on_sent(sent: Sent) -> None:
        nonlocal failed, cause
        if sent.error is not None:
            failed, cause = failed + 1, sent.error
            key, size = sent.token if isinstance(sent.token, tuple) else (None, 0)
            shown = "null" if key is None else f"{key} bytes"
            print(
                f"ERROR Error when sending message to topic {sent.where[0]} with key: {shown}, value: {size} bytes "
                f"with error: {java_name(sent.error)}",
                file=sys.stderr,
            )

    try:
        words = Properties.load(options.reader_config).values() | key_values(options.property)
        reader = LineReader(words)
        properties = properties_of(options)
        settings = producer_settings(properties)
        with Cluster(client_settings(properties, "console-producer")) as cluster:
            warn_unread(properties)
            for name in reader.unknown:
                print(f"WARN reader property {name} is not known and has no effect", file=sys.stderr)
            producer = Producer(cluster, settings, on_sent)
            try:
                for line in input_lines(producer, prompt=sys.stdin.isatty() and sys.stdout.isatty()):
                    record = reader.read(line)
                    token = (None if record.key is None else len(record.key), len(record.value or b""))
                    producer.send(options.topic, *record, token=token)
                    if options.sync:
                        producer.flush()
                        if cause is not None:
                            raise cause
            finally:
                producer.flush()
                producer.close()
    except ToolError as error:
        if error is not cause:
            print(java_name(error), file=sys.stderr)
        return 1
    return 1 if failed else 0


def input_lines(producer: Producer, *, prompt: bool) -> Iterator[bytes]:
    """Lines of standard input; while none comes the producer goes on."""
    lines = Lines()
    source = sys.stdin.fileno()
    while True:
        if prompt:
            print(">", end="", flush=True)
        while True:
            ready = readable([source, *producer.descriptors()], producer.wait())
            producer.poll(0.0)
            if source in ready:
                break
        data = os.read(source, _READ_BYTES)
        if not data:
            yield from lines.end()
            return
        yield from lines.feed(data)
