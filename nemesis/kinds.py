"""Descriptions of kinds of faults: parameters, place in a schedule, use in a script.

Values only, no behaviour on nodes. Each kind is described beside its implementation, in `nemesis.faults`; schedule,
scripts, run files, the history and docs/faults.md read the description.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum

from harness.plan.fault_kinds import KnownFault


@dataclass(frozen=True, slots=True)
class Number:
    """A number of `unit`, from low to high inclusive."""

    unit: str
    low: float = -math.inf
    high: float = math.inf

    @property
    def expected(self) -> str:
        """For an error message: what a value has to be."""
        if (self.low, self.high) == (-math.inf, math.inf):
            return f"a number of {self.unit}"
        return f"a number of {self.unit} from {self.low:g} to {self.high:g}"

    def holds(self, value: object) -> bool:
        """Whether the value is one of these; True and False are no numbers."""
        return isinstance(value, (int, float)) and not isinstance(value, bool) and self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number, 0 or more."""

    expected: str = "a whole number"

    def holds(self, value: object) -> bool:
        """Whether the value is one of these; True and False are no numbers."""
        return type(value) is int and value >= 0


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some values: texts, or True and False."""

    allowed: tuple[str | bool, ...]

    @property
    def expected(self) -> str:
        """For an error message: what a value has to be."""
        return f"one of {', '.join(map(str, self.allowed))}"

    def holds(self, value: object) -> bool:
        """Whether the value is one of these."""
        return any(value == one and type(value) is type(one) for one in self.allowed)


@dataclass(frozen=True, slots=True)
class Grudge:
    """Of a cut: node → nodes whose packets it drops. Follows from the other parameters and the run's nodes."""

    expected: str = "a table of node names, each with a list of node names"

    def holds(self, value: object) -> bool:
        """Whether the value is one of these."""
        return isinstance(value, Mapping) and all(isinstance(dropped, list) for dropped in value.values())


Values = Number | Whole | Choice | Grudge


class InScript(Enum):
    """What a script says of a parameter: REQUIRED; DRAWN from the run's seed where it is not given; or NOTHING."""

    REQUIRED = "required"
    DRAWN = "drawn"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One key of an injection's `params`.

    drawn: how a random mix chooses it, as a text for the page of faults. script: whether a step may give it; default:
    what it is in a script that does not, if it is not drawn.
    """

    name: str
    values: Values
    drawn: str
    script: InScript = InScript.NOTHING
    default: object = None


class Outlasts(Enum):
    """What a fault has to outlast to have its full effect: nothing, session and lag time, or an election."""

    NOTHING = "nothing"
    SESSION_AND_LAG = "session and lag"
    ELECTION = "election"


class Turn(IntEnum):
    """What a short run has to exercise, in this order: the head of a schedule has one kind for each turn."""

    LEADER_KILLED = 1
    LEADER_SILENT = 2
    FOLLOWER_LAGS = 3
    FILE_DAMAGED = 4
    """Before the last two, so that the later faults make leaders fail over while a replica is damaged, perhaps
    unnoticed.
    """
    LEADER_GOES_OTHERWISE = 5
    CLOCK_WRONG = 6


@dataclass(frozen=True, slots=True)
class Timing:
    """The brokers' own clocks, as far as the run file sets them; None: not known, and then durations have no lower
    bound.
    """

    session_s: float | None = None
    lag_s: float | None = None


def _nothing(_timing: Timing) -> Mapping[str, object]:
    return {}


@dataclass(frozen=True, slots=True)
class Opening:
    """That a kind may have a turn in the head of a schedule.

    role: whom it hits then, `leader` or `follower`; None for the next of the mix's targets. place: among the kinds of
    that turn, lower first; kinds of one place stand as in the mix. wanted: parameters that the head fixes.
    """

    turn: Turn
    role: str | None = None
    place: int = 0
    wanted: Callable[[Timing], Mapping[str, object]] = _nothing


@dataclass(frozen=True, slots=True)
class ScriptUse:
    """How scripts use a kind. verb: whether its name is one. undo: the verb that takes it back, if there is one, and
    whether that one names a broker.
    """

    verb: bool = True
    undo: str | None = None
    undo_names_broker: bool = True


@dataclass(frozen=True, slots=True)
class FaultKind(KnownFault):
    """One kind of fault. does, seen_by: for docs/faults.md: what is done, and what shows its effect.

    opening: None keeps it out of the head of a schedule. script: None keeps it out of scripts.
    """

    does: str = ""
    seen_by: str = ""
    parameters: tuple[Parameter, ...] = ()
    outlasts: Outlasts = Outlasts.NOTHING
    opening: Opening | None = None
    script: ScriptUse | None = None
