"""Options and actions of `highwater topics`. Exit codes: 0, or 1 for whatever went wrong."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from broker.tools.client import admin
from broker.tools.client.cluster import Cluster
from broker.tools.client.errors import BrokerError, ToolError
from broker.tools.options import Parser, admin_settings, whole, whole16
from broker.tools.text import INTERNAL_TOPICS, matching, replica_assignment, topic_configs
from broker.tools.topics.lines import Reports, describe
from broker.wire.errors import ErrorCode
from broker.wire.messages.metadata import MetadataResponseTopic

_ACTIONS: Final = ("list", "describe", "create", "alter", "delete")
_REPORTS: Final = (
    "under-replicated-partitions",
    "unavailable-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
)
_ALLOWED_WITH: Final = {
    "config": ("alter", "create"),
    "delete-config": ("alter",),
    "partitions": ("alter", "create"),
    "replication-factor": ("create",),
    "replica-assignment": ("alter", "create"),
    **dict.fromkeys(_REPORTS, ("describe",)),
    "topics-with-overrides": ("describe",),
    "if-exists": ("alter", "delete", "describe"),
    "if-not-exists": ("create",),
    "exclude-internal": ("list", "describe"),
}
_REPLICATION_MAX: Final = 2**15 - 1


def parser() -> Parser:
    """The options of kafka-topics.sh."""
    made = Parser("topics", "Create, delete, describe, or change a topic.")
    made.bootstrap()
    add = made.add_argument
    for action in _ACTIONS:
        add(f"--{action}", action="store_true", help=f"{action} topics")
    add("--topic", metavar="TOPIC", help="a name; except for --create also a regular expression")
    add("--topic-id", metavar="ID", help="instead of a name, for --describe")
    add("--config", action="append", default=[], metavar="NAME=VALUE", help="a setting of the new topic")
    add("--delete-config", action="append", default=[], metavar="NAME", help="refused: highwater configs does it")
    add("--partitions", type=whole, metavar="N", help="number of partitions; the cluster's default where not given")
    add("--replication-factor", type=whole16, metavar="N", help="the cluster's default where not given")
    add("--replica-assignment", metavar="1:2,2:3", help="broker ids of each partition's replicas")
    for report in _REPORTS:
        add(f"--{report}", action="store_true", help="with --describe: only such partitions")
    add("--topics-with-overrides", action="store_true", help="with --describe: only topics with settings of their own")
    add("--if-exists", action="store_true", help="a topic that is not there is no error")
    add("--if-not-exists", action="store_true", help="a topic that is there already is no error")
    add("--exclude-internal", action="store_true", help="leave internal topics out of --list and --describe")
    add("--partition-size-limit-per-response", type=whole, metavar="N", help="accepted; Metadata is not cut to pieces")
    return made


def checked(arguments: Sequence[str]) -> argparse.Namespace:
    """The parsed options, with the action as `action`; wrong ones end the process with 1."""
    made = parser()
    options = made.parse_args(arguments)
    options.action = made.one_action(options, _ACTIONS)
    if options.action not in ("list", "describe"):
        made.require(options, "topic")
    if options.action == "describe" and options.if_exists and options.topic is None and options.topic_id is None:
        made.error("--topic or --topic-id is required to describe a topic")
    if options.action == "alter":
        if options.config:
            made.error('Option "[config]" can\'t be used with option "[alter]" (highwater configs alters settings)')
        made.require(options, "partitions")
    for used, actions in _ALLOWED_WITH.items():
        made.refuse_together(options, used, [action for action in _ACTIONS if action not in actions])
    if options.delete_config:
        made.error('Option "[delete-config]" can\'t be used with option "[bootstrap-server]"')
    if options.action == "create":
        made.refuse_together(options, "replica-assignment", ("partitions", "replication-factor"))
    for report in _REPORTS:
        made.refuse_together(options, report, ["topics-with-overrides"])
    return options


def run(arguments: Sequence[str]) -> int:
    """Carry one command line out; returns the exit code."""
    options = checked(arguments)
    try:
        with Cluster(admin_settings(options, "topics", options.command_config)) as cluster:
            match options.action:
                case "create":
                    _create(cluster, options)
                case "alter":
                    _alter(cluster, options)
                case "list":
                    print("\n".join(_names(cluster, options)))
                case "describe":
                    _describe(cluster, options)
                case _:
                    admin.delete_topics(cluster, _existing(cluster, options))
    except ToolError as error:
        print(f"Error while executing topic command : {error}")
        return 1
    return 0


def _create(cluster: Cluster, options: argparse.Namespace) -> None:
    name, partitions, factor = options.topic, options.partitions, options.replication_factor
    assignment = replica_assignment(options.replica_assignment) if options.replica_assignment else {}
    configs = topic_configs(options.config)
    if "." in name or "_" in name:
        print(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
            "collide. To avoid issues it is best to use either, but not both."
        )
    if factor is not None and not 1 <= factor <= _REPLICATION_MAX:
        raise ToolError(f"The replication factor must be between 1 and {_REPLICATION_MAX} inclusive")
    if partitions is not None and partitions < 1:
        raise ToolError("The partitions must be greater than 0")
    try:
        admin.create_topic(cluster, name, partitions, factor, assignment, configs)
    except BrokerError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS or not options.if_not_exists:
            raise
    else:
        print(f"Created topic {name}.")


def _alter(cluster: Cluster, options: argparse.Namespace) -> None:
    assignment = replica_assignment(options.replica_assignment) if options.replica_assignment else {}
    names = _existing(cluster, options)
    if not names:
        return
    topics = admin.describe_topics(cluster, names)
    if not assignment:
        admin.create_partitions(cluster, dict.fromkeys(names, options.partitions))
        return
    for name in names:
        there = len(topics[name].partitions)
        added = [replicas for index, replicas in assignment.items() if index >= there]
        admin.create_partitions(cluster, {name: options.partitions}, added)


def _names(cluster: Cluster, options: argparse.Namespace) -> list[str]:
    """The topics that --topic means."""
    return matching(admin.topic_names(cluster), options.topic, exclude_internal=options.exclude_internal)


def _existing(cluster: Cluster, options: argparse.Namespace) -> list[str]:
    """The same; raises ToolError where there is none and --if-exists was not given."""
    names = _names(cluster, options)
    if options.topic and not names and not options.if_exists:
        raise ToolError(f"Topic '{options.topic}' does not exist as expected")
    return names


def _described(cluster: Cluster, options: argparse.Namespace) -> list[MetadataResponseTopic]:
    if options.topic_id is None:
        names = _existing(cluster, options)
        return list(admin.describe_topics(cluster, names).values()) if names else []
    if options.topic is not None:
        print(
            "Only topic id will be used when both --topic and --topic-id are specified "
            "and topicId is not Uuid.ZERO_UUID"
        )
    topics = [
        topic
        for topic in admin.describe_topics(cluster).values()
        if topic.topic_id == options.topic_id and not (options.exclude_internal and topic.name in INTERNAL_TOPICS)
    ]
    if not topics and not options.if_exists:
        raise ToolError(f"TopicId '{options.topic_id}' does not exist as expected")
    return topics


def _describe(cluster: Cluster, options: argparse.Namespace) -> None:
    topics = _described(cluster, options)
    configs = admin.describe_configs(cluster, admin.TOPIC, [topic.name or "" for topic in topics])
    partitions = [(topic.name or "", one.partition_index) for topic in topics for one in topic.partitions]
    try:
        moving = admin.list_reassignments(cluster, partitions) if partitions else {}
    except BrokerError as error:
        if error.code not in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
            raise
        moving = {}
    reports = Reports(
        options.under_replicated_partitions,
        options.unavailable_partitions,
        options.under_min_isr_partitions,
        options.at_min_isr_partitions,
        options.topics_with_overrides,
    )
    for topic in topics:
        for line in describe(topic, configs.get(topic.name or "", []), moving, set(cluster.nodes), reports):
            print(line)
