"""`highwater log-dirs`, as kafka-log-dirs.sh: which log dirs brokers have, and how large the replicas in them are.

Source: org.apache.kafka.tools.LogDirsCommand. Exit codes: 0, or 1 for whatever went wrong.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping, Sequence

from broker.tools.client.cluster import Cluster
from broker.tools.client.errors import ToolError, check, exception_name, java_name
from broker.tools.options import Parser, admin_settings
from broker.tools.text import broker_ids, joined
from broker.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)


def parser() -> Parser:
    """The options of kafka-log-dirs.sh."""
    made = Parser("log-dirs", "Describe the log dirs of brokers as JSON.")
    made.bootstrap()
    made.add_argument("--describe", action="store_true", help="required")
    made.add_argument("--topic-list", default="", metavar="T1,T2", help="only replicas of these topics")
    made.add_argument("--broker-list", default="", metavar="1,2", help="only these brokers")
    return made


def run(arguments: Sequence[str]) -> int:
    """Carry one command line out; returns the exit code."""
    made = parser()
    options = made.parse_args(arguments)
    made.require(options, "describe")
    topics = {name for name in options.topic_list.split(",") if name}
    try:
        wanted = set(broker_ids(options.broker_list.strip(","))) if options.broker_list.strip(",") else set()
        with Cluster(admin_settings(options, "log-dirs", options.command_config)) as cluster:
            cluster.metadata([])
            live = set(cluster.nodes)
            if gone := sorted(wanted - live):
                raise ToolError(
                    f"ERROR: The given brokers do not exist from --broker-list: {joined(gone)}. "
                    f"Current existent brokers: {joined(sorted(live))}"
                )
            print("Querying brokers for log directories information")
            request = DescribeLogDirsRequest(None)
            responses = cluster.every_broker(
                "describeLogDirs", request, DescribeLogDirsResponse, sorted(wanted or live)
            )
            for response in responses.values():
                check(response.error_code)
    except ToolError as error:
        print(java_name(error), file=sys.stderr)
        return 1
    print(f"Received log directory information from brokers {joined(responses)}")
    print(as_json({broker_id: response.results for broker_id, response in responses.items()}, topics))
    return 0


def as_json(brokers: Mapping[int, Sequence[DescribeLogDirsResult]], topics: Collection[str]) -> str:
    """One line. topics: only replicas of these, of all where there are none."""
    found = [
        {
            "broker": broker_id,
            "logDirs": [
                {
                    "partitions": [
                        {
                            "partition": f"{topic.name}-{one.partition_index}",
                            "size": one.partition_size,
                            "offsetLag": one.offset_lag,
                            "isFuture": one.is_future_key,
                        }
                        for topic in sorted(log_dir.topics, key=lambda topic: topic.name)
                        if not topics or topic.name in topics
                        for one in sorted(topic.partitions, key=lambda one: one.partition_index)
                    ],
                    "error": _error(log_dir.error_code),
                    "logDir": log_dir.log_dir,
                }
                for log_dir in log_dirs
            ],
        }
        for broker_id, log_dirs in sorted(brokers.items())
    ]
    return json.dumps({"brokers": found, "version": 1}, separators=(",", ":"))


def _error(code: int) -> str | None:
    return f"org.apache.kafka.common.errors.{exception_name(code)}" if code else None
