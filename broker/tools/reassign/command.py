"""Options and actions of `highwater reassign`. Exit codes: 0, or 1 for whatever went wrong."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Final

from broker.core.controller.assignment import AssignmentRefused, assign
from broker.model.ids import BrokerId
from broker.tools.client import admin
from broker.tools.client.admin import TopicPartition
from broker.tools.client.cluster import Cluster
from broker.tools.client.errors import BrokerError, ToolError, check, java_name
from broker.tools.json_files import load, placements, topics_to_move
from broker.tools.options import Parser, admin_settings, given, whole64
from broker.tools.reassign import log_dirs, moves
from broker.tools.reassign.log_dirs import Terse
from broker.tools.reassign.moves import Found
from broker.tools.text import broker_ids, duplicates, joined
from broker.wire.errors import ErrorCode
from broker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)

_ACTIONS: Final = ("generate", "execute", "verify", "cancel", "list")
_REQUIRED: Final = {
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "verify": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
}
_PERMITTED: Final = {
    "generate": ("disable-rack-aware",),
    "execute": ("additional", "throttle", "replica-alter-log-dirs-throttle", "timeout"),
    "verify": ("preserve-throttles",),
    "cancel": ("preserve-throttles", "timeout"),
    "list": (),
}
_BROKER_THROTTLES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_LOG_DIR_THROTTLE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
_TOPIC_THROTTLES: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
_EXISTING: Final = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create "
    "a new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment."
)


def parser() -> Parser:
    """The options of kafka-reassign-partitions.sh."""
    made = Parser("reassign", "Give partitions other replicas.")
    made.bootstrap()
    add = made.add_argument
    add("--generate", action="store_true", help="propose replicas for topics; nothing is moved")
    add("--execute", action="store_true", help="begin what the file says")
    add("--verify", action="store_true", help="say how far it is; take throttles away once all is done")
    add("--cancel", action="store_true", help="take an ongoing reassignment back")
    add("--list", action="store_true", help="all ongoing reassignments")
    add("--reassignment-json-file", metavar="FILE", help="partitions with their replicas, as --generate prints them")
    add("--topics-to-move-json-file", metavar="FILE", help='{"topics": [{"topic": "t"}], "version": 1}')
    add("--broker-list", metavar="1,2", help="of --generate: brokers that are to have replicas")
    add("--disable-rack-aware", action="store_true", help="of --generate: as if brokers had no racks")
    add("--throttle", type=whole64, default=-1, metavar="BYTES/S", help="between brokers")
    add("--replica-alter-log-dirs-throttle", type=whole64, default=-1, metavar="BYTES/S", help="between log dirs")
    add("--timeout", type=whole64, default=10_000, metavar="MS", help="until moves between log dirs have begun")
    add("--additional", action="store_true", help="beside a reassignment that goes on")
    add("--preserve-throttles", action="store_true", help="leave throttles as they are")
    return made


def checked(arguments: Sequence[str]) -> argparse.Namespace:
    """The parsed options, with the action as `action`; wrong ones end the process with 1."""
    made = parser()
    options = made.parse_args(arguments)
    options.action = made.one_action(options, _ACTIONS)
    made.require(options, *_REQUIRED[options.action])
    named = {name for names in (*_REQUIRED.values(), *_PERMITTED.values()) for name in names}
    for name in sorted(named - {*_REQUIRED[options.action], *_PERMITTED[options.action]}):
        if given(options, name):
            made.error(f'Option "[{name}]" can\'t be used with action "[{options.action}]"')
    return options


def run(arguments: Sequence[str]) -> int:
    """Carry one command line out; returns the exit code."""
    options = checked(arguments)
    try:
        with Cluster(admin_settings(options, "reassign", options.command_config)) as cluster:
            match options.action:
                case "generate":
                    _generate(cluster, options)
                case "execute":
                    _execute(cluster, options)
                case "verify":
                    _verify(cluster, options)
                case "cancel":
                    _cancel(cluster, options)
                case _:
                    _print(moves.listed(admin.list_reassignments(cluster)))
    except Terse as error:
        print(error)
        return 1
    except ToolError as error:
        print(f"Error: {java_name(error)}")
        return 1
    return 0


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


def _assignment(cluster: Cluster, topics: Iterable[str]) -> dict[TopicPartition, tuple[int, ...]]:
    """Raises ToolError for a topic that is not there."""
    names = sorted(set(topics))
    found = {}
    for topic in cluster.metadata(names, "describeTopics").topics:
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise BrokerError(topic.error_code, f"Topic {topic.name} not found.")
        check(topic.error_code)
        for one in topic.partitions:
            found[topic.name or "", one.partition_index] = tuple(one.replica_nodes)
    return found


def _generate(cluster: Cluster, options: argparse.Namespace) -> None:
    brokers = broker_ids(options.broker_list)
    if doubled := duplicates(brokers):
        raise ToolError(f"Broker list contains duplicate entries: {doubled}")
    current = _assignment(cluster, topics_to_move(load(options.topics_to_move_json_file)))
    racks = {
        BrokerId(one.id): None if options.disable_rack_aware else one.rack
        for one in cluster.nodes.values()
        if one.id in brokers
    }
    if len({rack is None for rack in racks.values()}) > 1:
        raise ToolError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information."
        )
    print(f"Current partition replica assignment\n{moves.as_json(current)}\n")
    print(f"Proposed partition reassignment configuration\n{moves.as_json(proposal(current, racks, Random()))}")


def proposal(
    current: Mapping[TopicPartition, Sequence[int]], racks: Mapping[BrokerId, str | None], random: Random
) -> dict[TopicPartition, tuple[int, ...]]:
    """As many partitions and replicas as now, placed as those of a new topic would be. Raises ToolError."""
    topics: dict[str, list[Sequence[int]]] = {}
    for (topic, _), replicas in sorted(current.items()):
        topics.setdefault(topic, []).append(replicas)
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for topic, assignment in topics.items():
        start, shift = (random.randrange(max(len(racks), 1)) for _ in range(2))
        try:
            placed = assign(racks, len(assignment), len(assignment[0]), start, shift)
        except AssignmentRefused as error:
            raise ToolError(str(error)) from None
        found |= {(topic, partition): tuple(replicas) for partition, replicas in placed.items()}
    return found


def _execute(cluster: Cluster, options: argparse.Namespace) -> None:
    plan = placements(load(options.reassignment_json_file))
    proposed = moves.checked(plan)
    ongoing = admin.list_reassignments(cluster)
    if ongoing and not options.additional:
        raise Terse(_EXISTING)
    cluster.metadata([])
    unknown = sorted({broker for replicas in proposed.values() for broker in replicas} - set(cluster.nodes))
    if unknown:
        raise ToolError(f"Unknown broker id {unknown[0]}")
    there = _assignment(cluster, (topic for topic, _ in proposed))
    if missing := [where for where in proposed if where not in there]:
        raise ToolError(f"Unable to find partition: {moves.names_of(missing)}")
    print(f"Current partition replica assignment\n\n{moves.as_json({where: there[where] for where in proposed})}")
    print("\nSave this to use as the --reassignment-json-file option during rollback")
    targets = log_dirs.wanted(plan)
    if options.throttle >= 0 or options.replica_alter_log_dirs_throttle >= 0:
        print(
            "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle "
            "is removed."
        )
        _set_throttles(cluster, moves.moves(ongoing, proposed, there), targets, options)
    errors = _alter(cluster, {where: list(replicas) for where, replicas in proposed.items()})
    if errors:
        lines = "\n".join(f"{moves.name_of(where)}: {error}" for where, error in sorted(errors.items()))
        raise Terse(f"Error reassigning partition(s):\n{lines}")
    plural = "" if len(proposed) == 1 else "s"
    print(f"Successfully started partition reassignment{plural} for {moves.names_of(proposed)}")
    if targets:
        log_dirs.execute(cluster, targets, options.timeout / 1000)


def _set_throttles(
    cluster: Cluster,
    found: Mapping[TopicPartition, moves.Move],
    targets: Mapping[log_dirs.Replica, str],
    options: argparse.Namespace,
) -> None:
    if options.throttle >= 0:
        for topic, values in moves.throttled_replicas(found).items():
            admin.alter_configs(cluster, admin.TOPIC, topic, dict(zip(_TOPIC_THROTTLES, values, strict=True)), ())
        rates = dict.fromkeys(_BROKER_THROTTLES, str(options.throttle))
        for broker_id in moves.brokers_of(found):
            admin.alter_configs(cluster, admin.BROKER, str(broker_id), rates, ())
        print(f"The inter-broker throttle limit was set to {options.throttle} B/s")
    if options.replica_alter_log_dirs_throttle >= 0:
        rate = {_LOG_DIR_THROTTLE: str(options.replica_alter_log_dirs_throttle)}
        for broker_id in sorted({replica.broker_id for replica in targets}):
            admin.alter_configs(cluster, admin.BROKER, str(broker_id), rate, ())
        print(f"The replica-alter-dir throttle limit was set to {options.replica_alter_log_dirs_throttle} B/s")


def _alter(cluster: Cluster, wanted: Mapping[TopicPartition, list[int] | None]) -> dict[TopicPartition, BrokerError]:
    """None: cancel. Errors by partition. Raises BrokerError for one of the whole request."""
    topics: dict[str, list[ReassignablePartition]] = {}
    for (topic, partition), replicas in sorted(wanted.items()):
        topics.setdefault(topic, []).append(ReassignablePartition(partition, replicas))
    request = AlterPartitionReassignmentsRequest(
        int(cluster.settings.request_timeout * 1000), [ReassignableTopic(*one) for one in topics.items()]
    )
    response = cluster.controller(
        "alterPartitionReassignments",
        request,
        AlterPartitionReassignmentsResponse,
        lambda found: check(found.error_code, found.error_message),
    )
    return {
        (topic.name, one.partition_index): BrokerError(one.error_code, one.error_message)
        for topic in response.responses
        for one in topic.partitions
        if one.error_code
    }


def _verify(cluster: Cluster, options: argparse.Namespace) -> None:
    plan = placements(load(options.reassignment_json_file))
    ongoing = admin.list_reassignments(cluster)
    there: dict[TopicPartition, tuple[int, ...]] = {}
    for topic in sorted({one.where[0] for one in plan}):
        try:
            there |= _assignment(cluster, [topic])
        except BrokerError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
    found = {
        one.where: Found(
            ongoing[one.where].replicas if one.where in ongoing else there.get(one.where, ()),
            tuple(one.replicas),
            one.where not in ongoing,
        )
        for one in plan
    }
    _print(moves.states(found))
    targets = log_dirs.wanted(plan)
    moving, lines = log_dirs.states(targets, log_dirs.look_up(cluster, targets))
    print("\n".join(lines))
    if not ongoing and not moving and not options.preserve_throttles:
        _clear_throttles(cluster, {one.where: one.replicas for one in plan})


def _clear_throttles(cluster: Cluster, plan: Mapping[TopicPartition, Sequence[int]]) -> None:
    cluster.metadata([])
    brokers = sorted({*cluster.nodes, *(broker for replicas in plan.values() for broker in replicas)})
    topics = sorted({topic for topic, _ in plan})
    print(f"Clearing broker-level throttles on broker{'' if len(brokers) == 1 else 's'} {joined(brokers)}")
    for broker_id in brokers:
        admin.alter_configs(cluster, admin.BROKER, str(broker_id), {}, (*_BROKER_THROTTLES, _LOG_DIR_THROTTLE))
    print(f"Clearing topic-level throttles on topic{'' if len(topics) == 1 else 's'} {','.join(topics)}")
    for topic in topics:
        admin.alter_configs(cluster, admin.TOPIC, topic, {}, _TOPIC_THROTTLES)


def _cancel(cluster: Cluster, options: argparse.Namespace) -> None:
    plan = placements(load(options.reassignment_json_file))
    # Kafka's tool leaves those alone that only add replicas.
    active = list(admin.list_reassignments(cluster, [one.where for one in plan]))
    if active:
        errors = _alter(cluster, dict.fromkeys(active))
        plural = "" if len(active) == 1 else "s"
        if errors:
            lines = "\n".join(f"{moves.name_of(where)}: {error}" for where, error in sorted(errors.items()))
            raise Terse(f"Error cancelling partition reassignment{plural} for:\n{lines}")
        print(f"Successfully cancelled partition reassignment{plural} for: {moves.names_of(active)}")
    else:
        print("None of the specified partition reassignments are active.")
    targets = log_dirs.wanted(plan)
    found = log_dirs.look_up(cluster, targets)
    moving = {replica: where.current for replica, where in found.items() if where.future and where.current}
    if moving:
        log_dirs.execute(cluster, moving, options.timeout / 1000)
    else:
        print("None of the specified partition moves are active.")
    if not options.preserve_throttles:
        _clear_throttles(cluster, {one.where: one.replicas for one in plan})
