"""How a workload reads `[workload.options]`: which names there are, and what their values may be.

Decides what is refused, and with which words. Must not know what an option does: each workload's `options` has its
names, limits and defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from harness.plan.plan import Plan
from harness.plan.toml_source import PlanError, did_you_mean, show


class Allowed(Protocol):
    """What the values of one option may be."""

    def read(self, value: object) -> object | None:
        """The value as the workload has it; None where it is not allowed."""
        ...

    def __str__(self) -> str:
        """What is allowed, as it follows `is not` in an error."""
        ...


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number in [low, high]."""

    low: int
    high: int

    def read(self, value: object) -> int | None:
        """As it is."""
        whole = isinstance(value, int) and not isinstance(value, bool)
        return value if whole and isinstance(value, int) and self.low <= value <= self.high else None

    def __str__(self) -> str:
        return f"a whole number from {self.low} to {self.high}"


@dataclass(frozen=True, slots=True)
class Number:
    """A number in [low, high]."""

    low: float
    high: float

    def read(self, value: object) -> float | None:
        """As a float."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:
            return None
        return float(value)

    def __str__(self) -> str:
        return f"a number from {self.low:g} to {self.high:g}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of these names."""

    names: tuple[str, ...]

    def read(self, value: object) -> str | None:
        """As it is."""
        return value if isinstance(value, str) and value in self.names else None

    def __str__(self) -> str:
        return f"one of {', '.join(self.names)}"


def given_options(plan: Plan, allowed: Mapping[str, Allowed]) -> dict[str, Any]:
    """Options that the run file gives, by name. Raises PlanError by its line for any other name, and for a value that
    is not allowed.
    """
    found: dict[str, Any] = {}
    for name, value in plan.workload.options.items():
        where = f"{plan.workload.options_where.get(name, 'workload.options')}: workload.options.{name}"
        if name not in allowed:
            like = did_you_mean(name, list(allowed))
            raise PlanError(f"{where}: {plan.workload.kind} has {', '.join(allowed)}{like}")
        read = allowed[name].read(value)
        if read is None:
            raise PlanError(f"{where}: {show(value)} is not {allowed[name]}")
        found[name] = read
    return found
