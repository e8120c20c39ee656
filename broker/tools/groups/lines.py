"""The tables of `groups --list` and `--describe`, as kafka-consumer-groups prints them. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from broker.tools.client.admin import TopicPartition
from broker.tools.client.groups import Committed, Group, Member
from broker.wire.messages.list_groups import ListedGroup

MISSING: Final = "-"
_REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
_LEAST: Final = 15


class Row(NamedTuple):
    """A partition of a group's; None where nothing is known."""

    topic: str
    partition: int
    offset: int | None
    end: int | None
    member: Member | None


def listed(groups: Sequence[ListedGroup], *, types: bool, states: bool) -> list[str]:
    """Only the names without either."""
    if not types and not states:
        return [one.group_id for one in groups]
    width = max([_LEAST, *(len(one.group_id) for one in groups)]) + 10
    lines = []
    for name, kind, state in [
        ("GROUP", "TYPE", "STATE"),
        *((one.group_id, (one.group_type or "unknown").capitalize(), one.group_state or "Unknown") for one in groups),
    ]:
        line = name.ljust(width)
        line += f" {kind:<20}" if types else ""
        lines.append(line + (f" {state:<20}" if states else ""))
    return lines


def remark(group: Group) -> str | None:
    """What is said of a group that is not simply at work; of one that is not there it is an error."""
    if group.state == "Dead":
        return f"\nError: Consumer group '{group.id}' does not exist."
    if group.state == "Empty":
        return f"\nConsumer group '{group.id}' has no active members."
    if group.state in _REBALANCING:
        return f"\nWarning: Consumer group '{group.id}' is rebalancing."
    return None


def offset_rows(
    group: Group, committed: Mapping[TopicPartition, Committed], ends: Mapping[TopicPartition, int]
) -> list[Row]:
    """Of members with the most partitions first; then partitions that nobody has."""

    def row(one: TopicPartition, member: Member | None) -> Row:
        offset = committed[one].offset if one in committed else None
        return Row(*one, offset, ends.get(one), member)

    members = sorted(group.members, key=lambda member: (-len(member.assigned), member.id))
    rows = [row(one, member) for member in members for one in member.assigned]
    owned = {one for member in members for one in member.assigned}
    return rows + [row(one, None) for one in sorted(committed) if one not in owned]


def offsets(group: Group, rows: Sequence[Row]) -> list[str]:
    """The table that `--describe` prints without more options; none without rows."""
    if not rows:
        return []
    cells = [
        (
            group.id,
            row.topic,
            str(row.partition),
            _text(row.offset),
            _text(row.end),
            _text(None if row.offset is None or row.end is None else row.end - row.offset),
            *((MISSING,) * 3 if row.member is None else (row.member.id, row.member.host, row.member.client_id)),
        )
        for row in rows
    ]
    head = (
        *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
        *("CONSUMER-ID", "HOST", "CLIENT-ID"),
    )
    widths = (*_widths(cells, 0, 1), 10, 15, 15, 15, *_widths(cells, 6, 7), 0)
    return ["", *(" ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)) for row in (head, *cells))]


def _widths(cells: Iterable[Sequence[str]], *columns: int) -> list[int]:
    rows = list(cells)
    return [max([_LEAST, *(len(row[column]) for row in rows)]) for column in columns]


def _text(value: int | None) -> str:
    return MISSING if value is None else str(value)


def members(group: Group, *, verbose: bool) -> list[str]:
    """The table of `--members`. The column of instance ids is there if a member has one."""
    static = any(member.instance_id for member in group.members)
    rows = [
        (
            group.id,
            member.id,
            *((member.instance_id,) if static else ()),
            member.host,
            member.client_id,
            str(len(member.assigned)),
        )
        for member in group.members
    ]
    head = ("GROUP", "CONSUMER-ID", *(("GROUP-INSTANCE-ID",) if static else ()), "HOST", "CLIENT-ID", "#PARTITIONS")
    widths = _widths(rows, *range(len(head) - 1))
    if static:
        widths[2] = max(widths[2], 17)
    lines = [" ".join(cell.ljust(n) for cell, n in zip(row, [*widths, 15], strict=True)) + " " for row in (head, *rows)]
    if verbose:
        shown = ["ASSIGNMENT", *(_assignment(member) for member in group.members)]
        lines = [line + more for line, more in zip(lines, shown, strict=True)]
    return ["", *lines]


def _assignment(member: Member) -> str:
    """`(0,1), (2)`: the partitions of each topic, whose names Kafka's tool leaves out."""
    topics: dict[str, list[str]] = {}
    for topic, partition in member.assigned:
        topics.setdefault(topic, []).append(str(partition))
    return ", ".join(sorted(f"({','.join(sorted(parts))})" for parts in topics.values())) or MISSING


def state(group: Group) -> list[str]:
    """The table of `--state`."""
    node = group.coordinator
    coordinator = f"{node.address.host}:{node.address.port}  ({node.id})"
    width = max(25, len(coordinator))
    rows = (
        ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"),
        (group.id, coordinator, group.strategy, group.state, str(len(group.members))),
    )
    return [
        "",
        *(f"{row[0]:<{width}} {row[1]:<25} {row[2]:<20} {row[3]:<15} {row[4]}" for row in rows),
    ]


def reset_table(plans: Mapping[str, Mapping[TopicPartition, int]]) -> list[str]:
    """What `--reset-offsets` has done or would do. Kafka 3.9 forgets the ends of these lines."""
    rows = [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")]
    for group, plan in plans.items():
        rows += [(group, topic, str(partition), str(offset)) for (topic, partition), offset in sorted(plan.items())]
    return ["", *(f"{row[0]:<30} {row[1]:<30} {row[2]:<10} {row[3]:<15}" for row in rows)]
