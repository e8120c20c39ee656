"""`highwater perf producer`: sends records as fast as asked, and says how fast they were acknowledged.

Exit codes: 0, or 1 for a wrong command line and where a record was not acknowledged.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Final

from broker.tools.client.cluster import Cluster
from broker.tools.client.errors import ToolError, java_name
from broker.tools.client.producer import Producer, ProducerSettings, Sent, producer_settings
from broker.tools.client.properties import Properties, key_values
from broker.tools.client.settings import client_settings
from broker.tools.options import Parser, number, warn_unread, whole, whole64
from broker.tools.perf.stats import ProducerStats

_POLL_EVERY: Final = 64
_LETTERS: Final = bytes(range(ord("A"), ord("Z") + 1))
_BLOCK: Final = 1 << 20


def parser() -> Parser:
    """The options of kafka-producer-perf-test.sh."""
    made = Parser("perf producer", "Measure how fast records are acknowledged.")
    add = made.add_argument
    add("--topic", required=True, metavar="TOPIC", help="where records go")
    add("--num-records", required=True, type=whole64, metavar="N", help="how many")
    payload = made.add_mutually_exclusive_group(required=True)
    payload.add_argument("--record-size", type=whole, metavar="BYTES", help="of random letters")
    payload.add_argument("--payload-file", metavar="FILE", help="payloads, of which each record takes one at random")
    payload.add_argument("--payload-monotonic", action="store_true", help="0, 1, 2 …")
    add("--payload-delimiter", default="\\n", metavar="TEXT", help="between the payloads of a file")
    add("--throughput", required=True, type=number, metavar="N", help="records per second at most, -1 for no limit")
    add("--producer-props", nargs="+", default=[], metavar="NAME=VALUE", help="bootstrap.servers and other settings")
    add("--producer.config", metavar="FILE", help="properties file; --producer-props is stronger")
    add("--print-metrics", action="store_true", help="accepted; there are none")
    add("--transactional-id", metavar="ID", help="accepted; see --transaction-duration-ms")
    add("--transaction-duration-ms", type=whole64, default=0, metavar="MS", help="refused unless 0")
    return made


def payloads(options: argparse.Namespace, random: Random) -> Iterator[bytes]:
    """One for each record. Raises ToolError for a file that cannot be read or is empty."""
    if options.payload_monotonic:
        return (b"%d" % number for number in itertools.count())
    if options.record_size is not None:
        size = options.record_size
        # Cut from one block: drawing each letter would measure the drawing.
        block = bytes(random.choices(_LETTERS, k=_BLOCK + size))
        return (block[start : start + size] for start in iter(lambda: random.randrange(_BLOCK), -1))
    path = Path(options.payload_file)
    print(f"Reading payloads from: {path.absolute()}")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ToolError(f"{path}: {error}") from None
    parts = split_payloads(data, options.payload_delimiter)
    print(f"Number of messages read: {len(parts)}")
    return iter(lambda: random.choice(parts), None)


def split_payloads(data: bytes, delimiter: str) -> list[bytes]:
    """What stands between delimiters, of which `\\n` is the end of a line. Raises ToolError where there is nothing."""
    parts = data.split(("\n" if delimiter == "\\n" else delimiter).encode())
    while parts and not parts[-1]:
        parts.pop()
    if not parts:
        raise ToolError("File does not exist or empty file provided.")
    return parts


def run(arguments: Sequence[str]) -> int:
    """Carry one command line out; returns the exit code."""
    made = parser()
    options = made.parse_args(arguments)
    config = getattr(options, "producer.config")
    if not options.producer_props and config is None:
        made.error("Either --producer-props or --producer.config must be specified.")
    if options.transaction_duration_ms > 0:
        made.error("--transaction-duration-ms: this producer sends without transactions")
    if options.num_records < 1:
        made.error(f"--num-records {options.num_records}: it must be 1 or more")
    if options.record_size is not None and options.record_size < 0:
        made.error(f"--record-size {options.record_size}: it must be 0 or more")
    if options.throughput == 0:
        made.error("--throughput 0: nothing would ever be sent; it must be above 0, or -1 for no limit")
    if not options.payload_delimiter:
        made.error("--payload-delimiter '': it must be one character or more")
    try:
        properties = Properties.load(config)
        properties.put(key_values(options.producer_props, empty_allowed=False))
        settings = producer_settings(properties)
        values = payloads(options, Random(0))
        with Cluster(client_settings(properties, "perf-producer-client")) as cluster:
            warn_unread(properties)
            return Run(options, values).carry_out(cluster, settings)
    except ToolError as error:
        print(java_name(error), file=sys.stderr)
        return 1


class Run:
    """One measurement."""

    def __init__(self, options: argparse.Namespace, values: Iterator[bytes]) -> None:
        self._topic = options.topic
        self._records = options.num_records
        self._rate = options.throughput
        self._values = values
        self._failed = 0
        self._stats = ProducerStats(self._records, time.monotonic())

    def carry_out(self, cluster: Cluster, settings: ProducerSettings) -> int:
        """Send all records; returns the exit code."""
        producer = Producer(cluster, settings, self._on_sent)
        try:
            start = time.monotonic()
            self._stats = ProducerStats(self._records, start)
            for number, value in enumerate(itertools.islice(self._values, self._records)):
                producer.send(self._topic, None, value, token=(time.monotonic(), len(value)))
                if number % _POLL_EVERY == 0:
                    producer.poll(0.0)
                if self._rate > 0:
                    self._throttle(producer, start + (number + 1) / self._rate)
            producer.flush()
        finally:
            producer.close()
        print(self._stats.total(time.monotonic()))
        return 1 if self._failed else 0

    @staticmethod
    def _throttle(producer: Producer, until: float) -> None:
        while (left := until - time.monotonic()) > 0:
            producer.poll(left)
            time.sleep(max(min(left, 0.001, until - time.monotonic()), 0.0))

    def _on_sent(self, sent: Sent) -> None:
        assert isinstance(sent.token, tuple)
        begun, size = sent.token
        if sent.error is not None:
            self._failed += 1
            print(java_name(sent.error), file=sys.stderr)
            return
        line = self._stats.record(int((sent.at - begun) * 1000), size, sent.at)
        if line is not None:
            print(line, flush=True)
