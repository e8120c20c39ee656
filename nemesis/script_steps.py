"""What a script may say: its verbs, their keys and their values. Pure.

A step of a run file becomes one of the values below, or an error that names file, line, key, value and what is allowed.
Must not know how a step is carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.plan.plan import ACKS, FILE_FAULTS, ScriptStep
from harness.plan.toml_source import PlanError
from nemesis.file_damage import FILES

WAIT_S = 30.0
OUTCOMES = ("ok", "fail", "info", "any")
SCOPES = ("all", "brokers", "zookeeper")
SINCES = ("start", "last-fault")


@dataclass(frozen=True, slots=True)
class Send:
    """One request, one record for each name. to: a broker id, or None for the leader; expect: an outcome, or any."""

    partition: int
    names: tuple[str, ...]
    acks: int
    to: int | None
    expect: str


@dataclass(frozen=True, slots=True)
class Hurt:
    """Apply a fault to one broker. params are the fault's."""

    fault: str
    broker: int
    params: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Revert:
    """Take back the faults of these names, of one broker or of all."""

    faults: tuple[str, ...]
    broker: int | None


@dataclass(frozen=True, slots=True)
class WaitLeader:
    partition: int
    broker: int
    timeout_s: float


@dataclass(frozen=True, slots=True)
class WaitIsr:
    """Until the ISR is exactly these brokers. partition: None for every partition."""

    partition: int | None
    brokers: frozenset[int]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class WaitController:
    broker: int
    timeout_s: float


@dataclass(frozen=True, slots=True)
class AwaitEvent:
    """Until the broker's event log has a line with this event and these fields. since: `start` of the log, or the
    `last-fault` of the script.
    """

    broker: int
    event: str
    match: Mapping[str, object]
    since: str
    timeout_s: float


Step = Send | Hurt | Revert | WaitLeader | WaitIsr | WaitController | AwaitEvent


class _Keys:
    """The keys of one step; each is taken once, and `finish` refuses the rest."""

    def __init__(self, step: ScriptStep, brokers: int, partitions: int) -> None:
        self._step = step
        self._left = dict(step.params)
        self._brokers, self._partitions = brokers, partitions

    def error(self, key: str, problem: str) -> PlanError:
        return PlanError(f"{self._step.where}: script.{key}: {problem} (in `do = {self._step.do!r}`)")

    def take(self, key: str, default: object, good: Callable[[object], bool], expected: str) -> object:
        """The key's value; default None makes the key required."""
        value = self._left.pop(key, default)
        if value is None:
            raise self.error(key, f"missing; it must be {expected}")
        if not good(value):
            raise self.error(key, f"{value!r} is not {expected}")
        return value

    def has(self, key: str) -> bool:
        return key in self._left

    def broker(self, key: str = "broker") -> int:
        return self._id(self.take(key, None, self._is_broker, f"a broker id from 1 to {self._brokers}"))

    def partition(self) -> int:
        last = self._partitions - 1
        return self._id(
            self.take("partition", 0, lambda value: type(value) is int and 0 <= value <= last, f"from 0 to {last}")
        )

    def partition_or_all(self) -> int | None:
        if self._left.get("partition") == "all":
            del self._left["partition"]
            return None
        return self.partition()

    def choice(self, key: str, default: str, allowed: Sequence[str]) -> str:
        return str(self.take(key, default, lambda value: value in allowed, f"one of {', '.join(allowed)}"))

    def seconds(self) -> float:
        value = self.take(
            "timeout_s",
            WAIT_S,
            lambda v: isinstance(v, (int, float)) and not isinstance(v, bool) and 0 < v <= 3600,
            "a number above 0, up to 3600",
        )
        assert isinstance(value, (int, float))
        return float(value)

    def brokers(self) -> frozenset[int]:
        value = self.take(
            "brokers",
            None,
            lambda v: isinstance(v, list) and bool(v) and all(map(self._is_broker, v)),
            f"a list of broker ids from 1 to {self._brokers}",
        )
        assert isinstance(value, list)
        return frozenset(value)

    def names(self) -> tuple[str, ...]:
        value = self.take(
            "names",
            None,
            lambda v: isinstance(v, list) and bool(v) and all(isinstance(n, str) and n for n in v),
            'a list of record names such as ["m1"]',
        )
        assert isinstance(value, list)
        return tuple(value)

    def mapping(self, key: str) -> Mapping[str, object]:
        value = self.take(key, {}, lambda v: isinstance(v, Mapping), "a table such as {leader = 2}")
        assert isinstance(value, Mapping)
        return dict(value)

    def to(self) -> int | None:
        expected = f"`leader` or a broker id from 1 to {self._brokers}"
        value = self.take("to", "leader", lambda v: v == "leader" or self._is_broker(v), expected)
        return None if value == "leader" else self._id(value)

    def acks(self) -> int:
        value = self.take("acks", "all", lambda v: not isinstance(v, bool) and str(v) in ACKS, "one of all, 1, 0")
        return ACKS[str(value)]

    def finish(self, step: Step) -> Step:
        for key in self._left:
            raise self.error(key, "this verb has no such key; docs/faults.md lists its keys")
        return step

    def _is_broker(self, value: object) -> bool:
        return type(value) is int and 1 <= value <= self._brokers

    @staticmethod
    def _id(value: object) -> int:
        assert isinstance(value, int)
        return value


def _send(keys: _Keys) -> Step:
    return Send(keys.partition(), keys.names(), keys.acks(), keys.to(), keys.choice("expect", "ok", OUTCOMES))


def _isolate(keys: _Keys) -> Step:
    broker = keys.broker()
    scope = keys.choice("from", "all", SCOPES)
    if scope == "zookeeper":
        return Hurt("cut-zookeeper", broker, {})
    return Hurt("isolate", broker, {"scope": scope})


def _clock_step(keys: _Keys) -> Step:
    broker = keys.broker()
    offset_s = keys.take(
        "offset_s", None, lambda v: isinstance(v, (int, float)) and not isinstance(v, bool), "a number of seconds"
    )
    return Hurt("clock-step", broker, {"offset_s": offset_s})


def _damage(fault: str) -> Callable[[_Keys], Step]:
    """The broker is left as it is: running, or down after an earlier step. Without a seed the run's own decides."""

    def parse(keys: _Keys) -> Step:
        broker = keys.broker()
        params: dict[str, object] = {"file": keys.choice("file", "segment", FILES), "while": "up"}
        if keys.has("seed"):
            params["seed"] = keys.take("seed", None, lambda v: type(v) is int and v >= 0, "a whole number")
        return Hurt(fault, broker, params)

    return parse


def _hurt(fault: str) -> Callable[[_Keys], Step]:
    return lambda keys: Hurt(fault, keys.broker(), {})


VERBS: Mapping[str, Callable[[_Keys], Step]] = {
    "send": _send,
    "kill": _hurt("kill"),
    "stop": _hurt("stop"),
    "pause": _hurt("pause"),
    "isolate": _isolate,
    "clock-step": _clock_step,
    **{fault: _damage(fault) for fault in FILE_FAULTS},
    "start": lambda keys: Revert(("kill", "stop"), keys.broker()),
    "resume": lambda keys: Revert(("pause",), keys.broker()),
    "heal-links": lambda keys: Revert(("isolate", "cut-zookeeper"), None),
    "clock-right": lambda keys: Revert(("clock-step",), keys.broker()),
    "wait-leader": lambda keys: WaitLeader(keys.partition(), keys.broker(), keys.seconds()),
    "wait-isr": lambda keys: WaitIsr(keys.partition_or_all(), keys.brokers(), keys.seconds()),
    "wait-controller": lambda keys: WaitController(keys.broker(), keys.seconds()),
    "await-event": lambda keys: AwaitEvent(
        keys.broker(),
        str(keys.take("event", None, lambda v: isinstance(v, str) and bool(v), "an event name of docs/event-log.md")),
        keys.mapping("match"),
        keys.choice("since", "start", SINCES),
        keys.seconds(),
    ),
}


def parse_step(step: ScriptStep, brokers: int, partitions: int) -> Step:
    """The step's meaning. Raises PlanError."""
    verb = VERBS.get(step.do)
    if verb is None:
        raise PlanError(f"{step.where}: script.do: {step.do!r} is not a verb; allowed: {', '.join(VERBS)}")
    keys = _Keys(step, brokers, partitions)
    return keys.finish(verb(keys))


def parse_script(steps: Sequence[ScriptStep], brokers: int, partitions: int) -> tuple[Step, ...]:
    """A script's steps. Raises PlanError for the first that is wrong, or for a record name that is given twice."""
    parsed = tuple(parse_step(step, brokers, partitions) for step in steps)
    seen: set[str] = set()
    for given, step in zip(steps, parsed, strict=True):
        for name in step.names if isinstance(step, Send) else ():
            if name in seen:
                raise PlanError(f"{given.where}: script.names: {name!r} was sent before; names are unique in a run")
            seen.add(name)
    return parsed
