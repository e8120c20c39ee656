"""Which offsets `groups --reset-offsets` would commit: the scenarios of kafka-consumer-groups."""

from __future__ import annotations

import argparse
import csv
import io
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from broker.tools.client.admin import TopicPartition, describe_topics
from broker.tools.client.cluster import Cluster
from broker.tools.client.errors import ToolError
from broker.tools.client.groups import committed_offsets
from broker.tools.client.numbers import whole_number, whole_numbers
from broker.tools.client.offsets import list_offsets
from broker.wire.list_offsets_timestamps import EARLIEST, LATEST

SCENARIOS: Final = (
    *("to-offset", "to-datetime", "by-duration", "to-earliest", "to-latest"),
    *("to-current", "shift-by", "from-file"),
)
_DURATION = re.compile(
    r"(-?)P(?:(-?[0-9]+)D)?(?:T(?:(-?[0-9]+)H)?(?:(-?[0-9]+)M)?(?:(-?[0-9]+(?:\.[0-9]+)?)S)?)?", re.IGNORECASE
)


class WrongScope(ToolError):
    """Options that do not say what is to be reset."""


def topic_partitions(cluster: Cluster, words: Sequence[str]) -> list[TopicPartition]:
    """`topic` for all of its partitions, `topic:0,1` for some. Raises ToolError."""
    named = [one for word in words if ":" in word for one in parse_partitions(word)]
    whole = [word for word in words if ":" not in word]
    for name, topic in (describe_topics(cluster, whole) if whole else {}).items():
        named += [(name, one.partition_index) for one in topic.partitions]
    return named


def parse_partitions(word: str) -> list[TopicPartition]:
    """`topic:0,1`. Raises WrongScope."""
    topic, *rest = word.split(":")
    if len(rest) != 1:
        raise WrongScope(f"Invalid topic arg '{word}', expected topic name and partitions")
    numbers = whole_numbers(rest[0].split(","))
    if numbers is None:
        raise WrongScope(f"Invalid partition '{rest[0]}' specified in topic arg '{word}'")
    return [(topic, number) for number in numbers]


def plan(cluster: Cluster, group: str, options: argparse.Namespace) -> dict[TopicPartition, int]:
    """New offsets of one group. Raises ToolError."""
    if options.from_file is not None:
        plans = parse_plan(_read(options.from_file), options.group)
        if group not in plans:
            print(f"\nError: No reset plan for group {group} found")
            return {}
        return _in_range(cluster, plans[group])
    partitions = _scope(cluster, group, options)
    if options.to_offset is not None:
        return _in_range(cluster, dict.fromkeys(partitions, options.to_offset))
    if options.to_earliest:
        return _listed(cluster, partitions, EARLIEST)
    if options.to_latest:
        return _listed(cluster, partitions, LATEST)
    if options.to_datetime is not None:
        return _by_time(cluster, partitions, parse_datetime(options.to_datetime))
    if options.by_duration is not None:
        back_ms = parse_duration(options.by_duration) / timedelta(milliseconds=1)
        return _by_time(cluster, partitions, int(time.time() * 1000 - back_ms))
    committed = {one: found.offset for one, found in committed_offsets(cluster, group).items()}
    if options.shift_by is not None:
        for topic, partition in partitions:
            if (topic, partition) not in committed:
                raise WrongScope(
                    f"Cannot shift offset for partition {topic}-{partition} since there is no current committed offset"
                )
        return _in_range(cluster, {one: committed[one] + options.shift_by for one in partitions})
    if options.to_current:
        return {
            **_listed(cluster, [one for one in partitions if one not in committed], LATEST),
            **{one: committed[one] for one in partitions if one in committed},
        }
    scenarios = ", ".join(f"[{name}]" for name in SCENARIOS)
    raise WrongScope(f"Option '[reset-offsets]' requires one of the following scenarios: {scenarios}")


def _scope(cluster: Cluster, group: str, options: argparse.Namespace) -> list[TopicPartition]:
    if options.all_topics:
        return sorted(committed_offsets(cluster, group))
    if options.topic:
        return topic_partitions(cluster, options.topic)
    raise WrongScope("One of the reset scopes should be defined: --all-topics, --topic.")


def _listed(cluster: Cluster, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
    return {one: found.offset for one, found in list_offsets(cluster, dict.fromkeys(partitions, timestamp)).items()}


def _by_time(cluster: Cluster, partitions: Sequence[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
    found = _listed(cluster, partitions, timestamp)
    none = [one for one, offset in found.items() if offset < 0]
    for topic, partition in none:
        print(f"\nWarn: Partition {partition} from topic {topic} is empty. Falling back to latest known offset.")
    return found | _listed(cluster, none, LATEST)


def _in_range(cluster: Cluster, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    starts, ends = _listed(cluster, wanted, EARLIEST), _listed(cluster, wanted, LATEST)
    found = {}
    for one, offset in wanted.items():
        new = min(max(offset, starts[one]), ends[one])
        if new != offset:
            side = "higher than latest" if offset > new else "lower than earliest"
            where = f"{one[0]}-{one[1]}"
            print(
                f"WARN New offset ({offset}) is {side} offset for topic partition {where}. Value will be set to {new}",
                file=sys.stderr,
            )
        found[one] = new
    return found


def parse_datetime(text: str) -> int:
    """`YYYY-MM-DDTHH:mm:SS.sss` with or without a zone, UTC without; ms since 1970. Raises ToolError."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or "T" not in text:
        raise WrongScope(f"Error parsing timestamp {text!r}: YYYY-MM-DDTHH:mm:SS.sss is wanted (ISO 8601)")
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return int(found.timestamp() * 1000)


def parse_duration(text: str) -> timedelta:
    """`PnDTnHnMnS`. Raises ToolError."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()[1:]):
        raise WrongScope(f"Text cannot be parsed to a Duration: {text!r} (PnDTnHnMnS is wanted)")
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups()[1:])
    try:
        found = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        raise WrongScope(
            f"Text cannot be parsed to a Duration: {text!r} is longer than {timedelta.max.days} days"
        ) from None
    return -found if match[1] else found


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ToolError(f"{path}: {error}") from None


def parse_plan(text: str, groups: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
    """`topic,partition,offset` lines of the only group, or `group,topic,partition,offset`. Raises ToolError."""
    plans: dict[str, dict[TopicPartition, int]] = {}
    try:
        rows = list(csv.reader(io.StringIO(text)))
    except csv.Error as error:
        raise ToolError(f"the reset plan is no CSV: {error}") from None
    for number, row in enumerate(rows, 1):
        if not row:
            continue
        if len(row) == 3 and len(groups) == 1:
            row = [groups[0], *row]
        partition, offset = (whole_number(row[2]), whole_number(row[3], 64)) if len(row) == 4 else (None, None)
        if partition is None or offset is None:
            raise ToolError(f"line {number} of the reset plan: {row}; [group,]topic,partition,offset is wanted")
        plans.setdefault(row[0], {})[row[1], partition] = offset
    return plans


def export(plans: Mapping[str, Mapping[TopicPartition, int]], groups: Sequence[str]) -> str:
    """What parse_plan reads."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for group, found in plans.items():
        for (topic, partition), offset in sorted(found.items()):
            writer.writerow([*(() if len(groups) == 1 else (group,)), topic, partition, offset])
    return out.getvalue()
