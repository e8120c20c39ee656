"""What several tools read from their command lines: lists of topics, replica lists, names of partitions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from broker.tools.client.errors import ToolError
from broker.tools.client.numbers import whole_numbers

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})


def topic_filter(text: str) -> re.Pattern[str]:
    """A regular expression for whole names; `a,b` means a or b. Raises ToolError."""
    pattern = text.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        return re.compile(pattern)
    except re.error:
        raise ToolError(f"{pattern} is an invalid regex.") from None


def matching(names: Iterable[str], wanted: str | None, *, exclude_internal: bool) -> list[str]:
    """The names that a --topic option means, in their order; all for None."""
    pattern = None if wanted is None else topic_filter(wanted)
    return [
        name
        for name in names
        if (pattern is None or pattern.fullmatch(name)) and not (exclude_internal and name in INTERNAL_TOPICS)
    ]


def replica_assignment(text: str) -> dict[int, list[int]]:
    """`1:2,2:3`: partition 0 on brokers 1 and 2, partition 1 on 2 and 3. Raises ToolError."""
    placed: dict[int, list[int]] = {}
    for index, word in enumerate(text.split(",")):
        replicas = broker_ids(word, ":")
        if doubled := duplicates(replicas):
            raise ToolError(f"Partition replica lists may not contain duplicate entries: {joined(doubled)}")
        placed[index] = replicas
        if len(replicas) != len(placed[0]):
            raise ToolError(f"Partition {index} has different replication factor: {replicas}")
    return placed


def broker_ids(text: str, separator: str = ",") -> list[int]:
    """Raises ToolError for a word that is no number."""
    found = whole_numbers(word.strip() for word in text.split(separator))
    if found is None:
        raise ToolError(f"{text!r}: broker ids separated by {separator!r} are wanted")
    return found


def duplicates(values: Sequence[int]) -> list[int]:
    """Values that occur more than once."""
    return sorted({value for value in values if values.count(value) > 1})


def joined(values: Iterable[int]) -> str:
    """`1,2,3`."""
    return ",".join(map(str, values))


def topic_configs(words: Sequence[str]) -> dict[str, str]:
    """`name=value` of --config options. Raises ToolError."""
    found = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name.strip() or not value.strip() or "=" in value:
            raise ToolError(
                'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
            )
        found[name.strip()] = value.strip()
    return found
