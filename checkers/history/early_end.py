"""What run.json says of a load that ended because the run was invalid already.

Pure. What was found then is no verdict: the whole history is judged as if nobody had looked before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class EarlyEnd:
    """checker: that found it; partition: of the first that it found, None: of none, or not said; operations: indices of
    those that show it; at_ns: run time of the finding, lines: of the history that had been judged then.
    """

    checker: str
    found: str
    operations: tuple[int, ...]
    at_ns: int
    lines: int
    partition: str | None = None

    @property
    def said(self) -> str:
        """For the verdict's sentence."""
        by = f", operation {max(self.operations)}" if self.operations else ""
        return f"ended early, by what {self.checker} had found at {self.at_ns / 1e9:.1f} s{by}"

    def as_json(self, *, confirmed: bool) -> dict[str, Any]:
        """As results.json has it. confirmed: whether the whole history shows it."""
        return {
            "checker": self.checker,
            "found": self.found,
            "topic_partition": self.partition,
            "operations": list(self.operations),
            "at_ns": self.at_ns,
            "lines": self.lines,
            "confirmed": confirmed,
        }


def early_end_of(raw: Mapping[str, Any] | None) -> EarlyEnd | None:
    """Raises KeyError, TypeError or ValueError for what run.json cannot say."""
    if raw is None:
        return None
    operations = tuple(int(op) for op in raw["operations"])
    partition = raw.get("topic_partition")
    return EarlyEnd(
        str(raw["checker"]),
        str(raw["found"]),
        operations,
        int(raw["at_ns"]),
        int(raw["lines"]),
        None if partition is None else str(partition),
    )
