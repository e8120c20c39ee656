"""What a topic may be called. Pure. Source: org.apache.kafka.common.internals.Topic."""

from __future__ import annotations

import re
from collections.abc import Iterable

from broker.core.coordination import OFFSETS_TOPIC, TRANSACTION_TOPIC

LENGTH_MAX = 249
INTERNAL = frozenset({OFFSETS_TOPIC, TRANSACTION_TOPIC})
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def refusal(name: str) -> str | None:
    """Why a name is illegal, in Kafka's words; None for a legal one."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > LENGTH_MAX:
        reason = f"the length of '{name}' is longer than the max allowed length {LENGTH_MAX}"
    elif _LEGAL.fullmatch(name) is None:
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return None
    return f"Topic name is invalid: {reason}"


def collisions(name: str, others: Iterable[str]) -> list[str]:
    """Existing topics whose metrics would be confused with this one's: `.` and `_` count as the same."""
    if "." not in name and "_" not in name:
        return []
    unified = name.replace(".", "_")
    return [other for other in others if other.replace(".", "_") == unified and other != name]
