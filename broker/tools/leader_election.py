"""`highwater leader-election`, as kafka-leader-election.sh: preferred and unclean elections.

Source: org.apache.kafka.tools.LeaderElectionCommand. Exit codes: 0, or 1 where a partition got no leader or something
else went wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from broker.tools.client.admin import TopicPartition, by_topic
from broker.tools.client.cluster import Cluster
from broker.tools.client.errors import BrokerError, TimedOut, ToolError, check, java_name
from broker.tools.json_files import election_partitions, load
from broker.tools.options import Parser, admin_settings, given, whole
from broker.wire.errors import ErrorCode
from broker.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions

_TYPES: Final = {"preferred": 0, "unclean": 1}
_API_TIMEOUT_S: Final = 30.0
_CHOICES: Final = ("topic", "all-topic-partitions", "path-to-json-file")


def parser() -> Parser:
    """The options of kafka-leader-election.sh."""
    made = Parser("leader-election", "Elect leaders of partitions.")
    made.bootstrap(config="--admin.config")
    add = made.add_argument
    add("--election-type", type=str.lower, choices=tuple(_TYPES), required=True, help="which replica is to lead")
    add("--topic", metavar="TOPIC", help="of one partition, with --partition")
    add("--partition", type=whole, metavar="N", help="of one partition, with --topic")
    add("--all-topic-partitions", action="store_true", help="every partition that is eligible")
    add("--path-to-json-file", metavar="FILE", help='{"partitions": [{"topic": "t", "partition": 0}]}')
    return made


def checked(arguments: Sequence[str]) -> argparse.Namespace:
    """The parsed options; wrong ones end the process with 1."""
    made = parser()
    options = made.parse_args(arguments)
    if sum(given(options, name) for name in _CHOICES) != 1:
        made.error(f"One and only one of the following options is required: {', '.join(_CHOICES)}")
    if given(options, "topic") and not given(options, "partition"):
        made.error("Missing required option(s): partition")
    if given(options, "partition") and not given(options, "topic"):
        made.error("Option partition is only allowed if topic is used")
    return options


def run(arguments: Sequence[str]) -> int:
    """Carry one command line out; returns the exit code."""
    options = checked(arguments)
    try:
        wanted: list[TopicPartition] | None = None
        if options.path_to_json_file is not None:
            wanted = election_partitions(load(options.path_to_json_file))
        elif options.topic is not None:
            wanted = [(options.topic, options.partition)]
        settings = admin_settings(options, "leader-election", getattr(options, "admin.config"))
        with Cluster(settings._replace(api_timeout=min(settings.api_timeout, _API_TIMEOUT_S))) as cluster:
            results = elect(cluster, _TYPES[options.election_type], wanted)
    except ToolError as error:
        if isinstance(error, TimedOut) or (
            isinstance(error, BrokerError) and error.code == ErrorCode.REQUEST_TIMED_OUT
        ):
            print("Timeout waiting for election results")
        print(java_name(error), file=sys.stderr)
        return 1
    failed, lines = outcome(options.election_type, results)
    print("".join(f"{line}\n" for line in lines), end="")
    if failed:
        print(f"{failed} replica(s) could not be elected", file=sys.stderr)
    return 1 if failed else 0


def elect(
    cluster: Cluster, kind: int, partitions: Sequence[TopicPartition] | None
) -> dict[TopicPartition, BrokerError | None]:
    """What became of each partition; of all for None, where those that need no election may be left out."""
    asked = None if partitions is None else [TopicPartitions(*one) for one in by_topic(partitions).items()]
    request = ElectLeadersRequest(kind, asked, int(cluster.settings.request_timeout * 1000))
    response = cluster.controller(
        "electLeaders", request, ElectLeadersResponse, lambda response: check(response.error_code)
    )
    return {
        (topic.topic, one.partition_id): BrokerError(one.error_code, one.error_message) if one.error_code else None
        for topic in response.replica_election_results
        for one in topic.partition_result
    }


def outcome(kind: str, results: Mapping[TopicPartition, BrokerError | None]) -> tuple[int, list[str]]:
    """How many partitions got no leader, and the lines that Kafka's tool prints."""
    names = {where: f"{where[0]}-{where[1]}" for where in sorted(results)}
    elected = [name for where, name in names.items() if results[where] is None]
    errors = {name: error for where, name in names.items() if (error := results[where]) is not None}
    needless = [name for name, error in errors.items() if error.code == ErrorCode.ELECTION_NOT_NEEDED]
    lines = []
    if elected:
        lines.append(f"Successfully completed leader election ({kind.upper()}) for partitions {', '.join(elected)}")
    if needless:
        lines.append(f"Valid replica already elected for partitions {', '.join(needless)}")
    failed = {name: error for name, error in errors.items() if name not in needless}
    lines += [
        f"Error completing leader election ({kind.upper()}) for partition: {name}: {error.java}"
        for name, error in failed.items()
    ]
    return len(failed), lines
