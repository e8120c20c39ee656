"""Options and actions of `highwater groups`.

Exit codes: 1 for a wrong command line, else 0 as with Kafka's tool, which prints `Error:` and ends with 0 when
something cannot be done.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from broker.tools.client.admin import TopicPartition
from broker.tools.client.cluster import Cluster
from broker.tools.client.errors import BrokerError, ToolError, java_name
from broker.tools.client.groups import (
    alter_offsets,
    committed_offsets,
    delete_group,
    delete_offsets,
    describe_group,
    list_groups,
)
from broker.tools.client.offsets import list_offsets
from broker.tools.groups import lines
from broker.tools.groups.reset import SCENARIOS, WrongScope, export, plan, topic_partitions
from broker.tools.options import Parser, admin_settings, given, whole64
from broker.wire.errors import ErrorCode
from broker.wire.list_offsets_timestamps import LATEST

_ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
_STATES: Final = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling")
_TYPES: Final = ("Consumer", "Classic")
_TIMEOUT_MS: Final = 5000


def parser() -> Parser:
    """The options of kafka-consumer-groups.sh."""
    made = Parser("groups", "List, describe and delete consumer groups, reset and delete their offsets.")
    made.bootstrap()
    add = made.add_argument
    for action in _ACTIONS:
        add(f"--{action}", action="store_true", help=f"{action.replace('-', ' ')}")
    add("--group", action="append", default=[], metavar="GROUP", help="may be given several times")
    add("--all-groups", action="store_true", help="of --describe, --delete, --reset-offsets: every group")
    add("--topic", action="append", default=[], metavar="TOPIC[:0,1]", help="may be given several times")
    add("--all-topics", action="store_true", help="of --reset-offsets: all partitions with a committed offset")
    add("--timeout", type=whole64, default=_TIMEOUT_MS, metavar="MS", help="of each operation, %(default)s by default")
    add("--members", action="store_true", help="of --describe: members")
    add("--offsets", action="store_true", help="of --describe: offsets and lag, as without it")
    add("--state", nargs="?", const="", metavar="STATES", help="of --describe, and of --list, there also as a filter")
    add("--type", nargs="?", const="", metavar="TYPES", help="of --list: show types, or only groups of these")
    add("--verbose", action="store_true", help="of --members: assignments as well")
    add("--dry-run", action="store_true", help="of --reset-offsets: only show what would be done")
    add("--execute", action="store_true", help="of --reset-offsets: do it")
    add("--export", action="store_true", help="of --reset-offsets: print it as CSV")
    add("--to-offset", type=whole64, metavar="OFFSET", help="this offset, or the nearest that there is")
    add("--shift-by", type=whole64, metavar="N", help="so many on, or back for a negative number")
    add("--to-datetime", metavar="TIME", help="YYYY-MM-DDTHH:mm:SS.sss, UTC without a zone")
    add("--by-duration", metavar="PnDTnHnMnS", help="so long ago")
    add("--from-file", metavar="FILE", help="CSV as --export prints it")
    for name in ("to-earliest", "to-latest", "to-current"):
        add(f"--{name}", action="store_true", help=f"the {name[3:]} offset")
    return made


def checked(arguments: Sequence[str]) -> argparse.Namespace:
    """The parsed options, with the action as `action`; wrong ones end the process with 1."""
    made = parser()
    options = made.parse_args(arguments)
    options.action = made.one_action(options, _ACTIONS)
    if options.action in ("describe", "delete", "reset-offsets") and not (options.group or options.all_groups):
        made.error(f"Option [{options.action}] takes one of these options: [group], [all-groups]")
    if options.action == "describe":
        shown = [options.members, options.offsets, options.state is not None]
        if sum(shown) > 1:
            made.error("Option [describe] takes at most one of these options: [members], [offsets], [state]")
        if options.state:
            made.error("Option [describe] does not take a value for [state]")
    if options.action == "delete" and options.topic:
        made.error("The consumer does not support topic-specific offset deletion from a consumer group.")
    if options.action == "delete-offsets" and not (options.group and options.topic):
        made.error("Option [delete-offsets] takes the following options: [group], [topic]")
    if options.action == "list":
        made.refuse_together(options, "group", ["list"])
    made.refuse_together(options, "group", ["all-groups"])
    if options.dry_run and options.execute:
        made.error("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    scenarios = [name for name in SCENARIOS if given(options, name)]
    if len(scenarios) > 1:
        made.error(f'Option "[{scenarios[0]}]" can\'t be used with option "[{scenarios[1]}]"')
    for text, known, what in ((options.state, _STATES, "state"), (options.type, _TYPES, "types")):
        if text and (wrong := [word for word in text.split(",") if _known(word, known) is None]):
            made.error(
                f"Invalid {what} list '{','.join(wrong)}'. Valid {what.removesuffix('s')}s are: {', '.join(known)}"
            )
    return options


def _known(word: str, among: Sequence[str]) -> str | None:
    return next((one for one in among if one.lower() == word.strip().replace("_", "").lower()), None)


def _filter(text: str | None, among: Sequence[str]) -> list[str]:
    return [found for word in (text or "").split(",") if (found := _known(word, among)) is not None]


def run(arguments: Sequence[str]) -> int:
    """Carry one command line out; returns the exit code."""
    options = checked(arguments)
    if options.action == "reset-offsets" and not options.dry_run and not options.execute:
        print("WARN: No action will be performed as the --execute option is missing.", file=sys.stderr)
    try:
        settings = admin_settings(options, "groups", options.command_config)
        with Cluster(settings._replace(api_timeout=options.timeout / 1000)) as cluster:
            _carry_out(cluster, options)
    except WrongScope as error:
        parser().error(str(error))
    except ToolError as error:
        print(f"\nError: Executing consumer group command failed due to {java_name(error)}")
    return 0


def _carry_out(cluster: Cluster, options: argparse.Namespace) -> None:
    match options.action:
        case "list":
            found = list_groups(cluster, _filter(options.state, _STATES), _filter(options.type, _TYPES))
            _print(lines.listed(found, types=options.type is not None, states=options.state is not None))
        case "describe":
            for name in sorted(set(_groups(cluster, options))):
                _describe(cluster, name, options)
        case "delete":
            _delete(cluster, _groups(cluster, options))
        case "reset-offsets":
            _reset(cluster, options)
        case _:
            _delete_offsets(cluster, options.group[-1], options.topic)


def _print(found: Sequence[str]) -> None:
    for line in found:
        print(line)


def _groups(cluster: Cluster, options: argparse.Namespace) -> list[str]:
    if options.all_groups:
        return [one.group_id for one in list_groups(cluster)]
    return list(dict.fromkeys(options.group))


def _describe(cluster: Cluster, name: str, options: argparse.Namespace) -> None:
    group = describe_group(cluster, name)
    committed = committed_offsets(cluster, name) if not options.members and options.state is None else {}
    if (said := lines.remark(group)) is not None:
        print(said, file=sys.stdout if group.state == "Dead" else sys.stderr, flush=True)
    if options.members:
        _print(lines.members(group, verbose=options.verbose))
    elif group.state == "Dead":
        return
    elif options.state is not None:
        _print(lines.state(group))
    else:
        wanted = {*committed, *(one for member in group.members for one in member.assigned)}
        ends = list_offsets(cluster, dict.fromkeys(wanted, LATEST))
        rows = lines.offset_rows(group, committed, {one: found.offset for one, found in ends.items()})
        _print(lines.offsets(group, rows))


def _delete(cluster: Cluster, names: Sequence[str]) -> None:
    failed: dict[str, ToolError] = {}
    for name in names:
        try:
            delete_group(cluster, name)
        except ToolError as error:
            failed[name] = error
    done = [name for name in names if name not in failed]
    if not failed:
        print(f"Deletion of requested consumer groups ('{', '.join(done)}') was successful.")
        return
    print("\nError: Deletion of some consumer groups failed:")
    for name, problem in failed.items():
        # The word before the cause is how Java prints a failure that another thread has met.
        cause = f"java.util.concurrent.ExecutionException: {java_name(problem)}"
        print(f"* Group '{name}' could not be deleted due to: {cause}")
    if done:
        print(f"\nThese consumer groups were deleted successfully: '{', '.join(done)}'")


def _reset(cluster: Cluster, options: argparse.Namespace) -> None:
    plans: dict[str, dict[TopicPartition, int]] = {}
    for name in _groups(cluster, options):
        state = describe_group(cluster, name).state
        plans[name] = {}
        if state not in ("Empty", "Dead"):
            print(
                f"\nError: Assignments can only be reset if the group '{name}' is inactive, "
                f"but the current state is {state}."
            )
            continue
        found = plan(cluster, name, options)
        if options.execute:
            alter_offsets(cluster, name, found)
        plans[name] = found
    if options.export:
        print(export(plans, options.group))
    else:
        _print(lines.reset_table(plans))


def _delete_offsets(cluster: Cluster, group: str, topics: Sequence[str]) -> None:
    partitions = topic_partitions(cluster, topics)
    codes: dict[TopicPartition, int] = {}
    try:
        codes = delete_offsets(cluster, group, partitions)
    except BrokerError as error:
        codes = dict.fromkeys(partitions, error.code)
        match error.code:
            case ErrorCode.INVALID_GROUP_ID:
                print(f"\nError: '{group}' is not valid.")
            case ErrorCode.GROUP_ID_NOT_FOUND:
                print(f"\nError: '{group}' does not exist.")
            case ErrorCode.NON_EMPTY_GROUP:
                print(
                    f"\nError: Deleting offsets of a consumer group '{group}' is forbidden if the group is not empty."
                )
            case _:
                print(f"\nError: Encounter some unknown error: {ErrorCode(error.code).name}")
    else:
        if any(codes.values()):
            print("\nError: Encounter some partition level error, see the follow-up details:")
        else:
            print(f"Request succeed for deleting offsets with topic {', '.join(topics)} group {group}")
    print(f"\n{'TOPIC':<30} {'PARTITION':<15} {'STATUS':<15}")
    for (topic, partition), code in sorted(codes.items()):
        status = f"Error: :{BrokerError(code).java}" if code else "Successful"
        print(f"{topic:<30} {partition:<15} {status:<15}")
