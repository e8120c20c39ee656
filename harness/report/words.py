"""Plain words for what results.json and run.json call by short names: figures, values, times, nodes.

Decides wording and units only. Knows no page and no terminal. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

_FIGURES = {
    "acknowledged": "records acknowledged",
    "acks_all": "sends acknowledged with acks=all",
    "allowed": "found, and allowed by the configuration",
    "answers_shown": "answers with records",
    "availability.worst_ms": "longest time without an acknowledged send to a partition",
    "availability.worst_recovery_ms": "longest from the end of a fault to the next acknowledged send",
    "election_faults": "kinds of faults that caused an election",
    "elections": "elections of a leader",
    "elections_by_partition": "elections of each partition",
    "ends_judged": "end offsets compared",
    "expansions": "replicas that came back into the in-sync set (ISR)",
    "found": "violations found",
    "heads_deleted": "partitions whose oldest records were deleted while the load went on",
    "hw_advances": "advances of a high watermark",
    "hw_events": "high watermarks seen",
    "last_in_sync_hit": "faults that hit the only member of an in-sync set (ISR)",
    "lag_shrinks": "replicas that a leader put out of the in-sync set (ISR) because they lagged",
    "leader_appends": "appends by leaders",
    "leaderships": "times a broker became leader",
    "lines": "lines of event logs",
    "logs_reopened": "logs opened again",
    "lost": "acknowledged records lost",
    "offsets_known": "offsets whose record is known",
    "partitions_after_last_fault": "partitions with work after the last fault",
    "polls_at_end": "polls at the end of a log",
    "polls_with_gaps": "polls with gaps in their offsets",
    "recovered_unknown": "sends without an answer whose record was found",
    "stale_polls": "polls answered with an older end than another client had seen",
    "staleness.median_ms": "half of the stale answers were behind by less than",
    "staleness.p99_ms": "99 % of the stale answers were behind by less than",
    "staleness.worst_ms": "the stalest answer was behind by",
    "truncations": "logs cut",
    "truncations_in_isr": "logs cut by in-sync replicas",
    "undecided": "left undecided",
    "unknown_sends": "sends without an answer",
    "unseen": "acknowledged records that no poll covered",
    "work_after_faults": "faults after which there was work",
    "polls_during_faults": "faults during which there were answered polls",
    "writes_during_faults": "faults during which there were writes",
}
"""`name`, or `checker.name` where a checker means something of its own by it."""

_DRAINED = {"wire": "the lab's own client", "confluent": "librdkafka"}
SCRIPT_PROCESSES = 1_000_000_000
"""Process numbers from here on are the drain's and the script's (docs/history-format.md)."""


def figure(name: str, checker: str = "") -> str:
    """What a figure is called on the page; what has no words of its own is spelt out without underscores."""
    known = _FIGURES.get(f"{checker}.{name}") or _FIGURES.get(name)
    if known is not None:
        return known
    kind, colon, rest = name.partition(":")
    if colon and kind in ("drained", "healed"):
        reader, _, node = rest.partition(":")
        by = f"partitions read to their end by {_DRAINED.get(reader, reader)}"
        return f"{by} with {node} as leader" if node else f"{by} before any restart"
    return name.removesuffix("_ms").replace("_", " ")


def quantity(name: str, value: object) -> str:
    """A figure's value with its unit: what ends in `_ms` is a time in milliseconds."""
    if name.endswith("_ms") and isinstance(value, int | float) and not isinstance(value, bool):
        return duration(value / 1000)
    return number(value)


def number(value: object) -> str:
    """Figures with thousands separators; everything else as it is."""
    if isinstance(value, bool) or value is None:
        return str(value).lower() if value is not None else "–"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    if isinstance(value, list | tuple):
        return ", ".join(number(item) for item in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {number(item)}" for key, item in value.items()) or "none"
    return str(value)


def duration(seconds: float) -> str:
    """432 ms, 3.9 s, 1 min 23 s."""
    if abs(seconds) < 0.9995:
        return f"{seconds * 1000:.3g} ms"
    if abs(seconds) < 99.95:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def moment(seconds: float | None) -> str:
    """A time of the run, in seconds since its start; an en dash for the unknown."""
    return "–" if seconds is None else f"{seconds:,.3f} s"


def date(wall_ns: int | None) -> str | None:
    """A day and a minute in UTC, of nanoseconds since 1970."""
    if wall_ns is None:
        return None
    return datetime.fromtimestamp(wall_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M UTC")


def broker_names(run: Mapping[str, Any]) -> dict[int, str]:
    """Broker id → name of its node, in run.json's order."""
    return {int(n["broker_id"]): str(n["name"]) for n in run.get("nodes", ()) if n.get("broker_id") is not None}


SENTINELS = 10**12
"""Values from here on are the lab's last records, by which a drain knows that it is complete."""


def value_name(value: object, names: Mapping[str, str]) -> str:
    """`value 17`, or `m2 (value 17)` where the script called it so. names: value → the script's name."""
    called = names.get(str(value))
    if called is None and isinstance(value, int) and value >= SENTINELS:
        return f"one of the lab's last records (value {value})"
    return f"value {value}" if called is None else f"{called} (value {value})"


def listed(items: Iterable[object]) -> str:
    """`a, b and c`."""
    texts = [str(item) for item in items]
    return ", ".join(texts[:-1]) + " and " + texts[-1] if len(texts) > 1 else "".join(texts)


def runs_of(numbers: Iterable[int]) -> str:
    """`3, 5 to 8` of whole numbers; of many runs the first and the last."""
    runs: list[list[int]] = []
    for one in sorted(set(numbers)):
        if runs and one == runs[-1][1] + 1:
            runs[-1][1] = one
        else:
            runs.append([one, one])
    if len(runs) > 5:
        return f"{runs[0][0]} to {runs[-1][1]} with gaps"
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in runs)
