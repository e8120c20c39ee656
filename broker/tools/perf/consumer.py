"""`highwater perf consumer`: reads records as fast as they come, and says how fast that was.

Exit codes: 0, or 1 for whatever went wrong.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from typing import Final

from broker.tools.client.cluster import Cluster
from broker.tools.client.consumer import Consumer
from broker.tools.client.errors import ToolError, java_name
from broker.tools.client.fetcher import fetch_settings
from broker.tools.client.membership import group_settings
from broker.tools.client.properties import Properties
from broker.tools.client.settings import client_settings
from broker.tools.options import Parser, given, warn_unread, whole, whole64
from broker.tools.perf.stats import DETAILED_HEADER, HEADER, Consumed, consumed_total, consumed_window, formatted

_POLL: Final = 0.1
_ACCEPTED: Final = ("socket-buffer-size", "threads", "num-fetch-threads")


def parser() -> Parser:
    """The options of kafka-consumer-perf-test.sh."""
    made = Parser("perf consumer", "Measure how fast records are read.")
    made.bootstrap(config="--consumer.config", required=False)
    add = made.add_argument
    add("--broker-list", metavar="HOST:PORT,…", help="the older name of --bootstrap-server")
    add("--topic", required=True, metavar="TOPIC", help="what to read")
    add("--messages", required=True, type=whole64, metavar="N", help="how many")
    add("--group", metavar="GROUP", help="a new one where it is not given")
    add("--fetch-size", default="1048576", metavar="BYTES", help="of each partition in a response")
    add("--from-latest", action="store_true", help="not from the first record")
    add("--timeout", nargs="?", type=whole64, const=10_000, default=10_000, metavar="MS", help="end without records")
    add("--reporting-interval", type=whole64, default=5000, metavar="MS", help="of --show-detailed-stats")
    add("--show-detailed-stats", action="store_true", help="a line for each interval instead of one at the end")
    add("--date-format", default="yyyy-MM-dd HH:mm:ss:SSS", metavar="FORMAT", help="yyyy, MM, dd, HH, mm, ss and SSS")
    add("--hide-header", action="store_true", help="without the names of the columns")
    add("--print-metrics", action="store_true", help="accepted; there are none")
    for name in _ACCEPTED:
        add(f"--{name}", type=whole, metavar="N", help="accepted; it has no effect")
    return made


def run(arguments: Sequence[str]) -> int:
    """Carry one command line out; returns the exit code."""
    made = parser()
    options = made.parse_args(arguments)
    if options.bootstrap_server is None and options.broker_list is None:
        made.error("Missing required option(s) [bootstrap-server]")
    if options.reporting_interval < 1:
        made.error("Reporting interval must be greater than 0.")
    if given(options, "threads") or given(options, "num-fetch-threads"):
        print("WARNING: option [threads] and [num-fetch-threads] have been deprecated and will be ignored by the test")
    try:
        properties = Properties.load(getattr(options, "consumer.config"))
        properties.put(
            {
                "bootstrap.servers": options.bootstrap_server or options.broker_list,
                "group.id": options.group or f"perf-consumer-{random.randrange(100_000)}",
                "max.partition.fetch.bytes": options.fetch_size,
                "auto.offset.reset": "latest" if options.from_latest else "earliest",
                "check.crcs": "false",
            }
        )
        formatted(0.0, options.date_format)
        with Cluster(client_settings(properties, "perf-consumer-client")) as cluster:
            return _carry_out(cluster, properties, options)
    except ToolError as error:
        print(java_name(error), file=sys.stderr)
        return 1


def _carry_out(cluster: Cluster, properties: Properties, options: argparse.Namespace) -> int:
    commits = properties.flag("enable.auto.commit", True)
    interval = properties.number("auto.commit.interval.ms", 5000) / 1000
    consumer = Consumer(
        cluster,
        fetch_settings(properties),
        topics=[options.topic],
        group=group_settings(properties),
        commit_interval=interval if commits else None,
    )
    warn_unread(properties)
    if not options.hide_header:
        print(DETAILED_HEADER if options.show_detailed_stats else HEADER, flush=True)
    try:
        start = before = now = Consumed(time.time(), 0, 0, 0.0)
        heard = start.at
        while now.messages < options.messages and now.at - heard <= options.timeout / 1000:
            messages, size = now.messages, now.bytes
            for chunk in consumer.poll(_POLL):
                messages += len(chunk.records)
                size += sum(len(one.record.key or b"") + len(one.record.value or b"") for one in chunk.records)
                consumer.consumed[chunk.where] = chunk.next_offset
            at = time.time()
            heard = at if messages > now.messages else heard
            now = Consumed(at, messages, size, consumer.rebalanced_s)
            if at - before.at >= options.reporting_interval / 1000:
                if options.show_detailed_stats:
                    print(consumed_window(before, now, options.date_format), flush=True)
                before = now
    finally:
        consumer.close()
    if now.messages < options.messages:
        print(
            "WARNING: Exiting before consuming the expected number of messages: timeout "
            f"({options.timeout} ms) exceeded. You can use the --timeout option to increase the timeout."
        )
    if not options.show_detailed_stats:
        print(consumed_total(start, now, options.date_format))
    return 0
