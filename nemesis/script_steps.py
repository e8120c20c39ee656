"""What a script may say: its verbs, their keys and their values. Pure.

A step of a run file becomes one of the values below, or an error that names file, line, key, value and what is allowed.
Must not know how a step is carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.plan.plan import ACKS, ScriptStep
from harness.plan.toml_source import PlanError
from nemesis.catalogue import load_catalogue
from nemesis.kinds import FaultKind, InScript, Parameter

WAIT_S = 30.0
OUTCOMES = ("ok", "fail", "info", "any")
SCOPES = ("all", "brokers", "zookeeper")
SINCES = ("start", "last-fault")
ENDS = ("latest", "earliest")
DELETE_RECORDS = "delete-records"


@dataclass(frozen=True, slots=True)
class Send:
    """One request, one record for each name. to: a broker id, or None for the leader; expect: an outcome, or any."""

    partition: int
    names: tuple[str, ...]
    acks: int
    to: int | None
    expect: str


@dataclass(frozen=True, slots=True)
class Poll:
    """Requests for records from a position, until one comes out as expected and has all that `finds` names. to: as in
    Send; seconds.
    """

    partition: int
    position: int
    to: int | None
    finds: tuple[str, ...]
    expect: str
    timeout_s: float


@dataclass(frozen=True, slots=True)
class ListOffsets:
    """Requests for an end of the log, `latest` or `earliest`, until one comes out as expected and says `reaches` or
    more. to: as in Send; seconds.
    """

    partition: int
    of: str
    to: int | None
    reaches: int
    expect: str
    timeout_s: float


@dataclass(frozen=True, slots=True)
class DeleteRecords:
    """One request that deletes what lies below an offset. to, expect: as in Send."""

    partition: int
    before: int
    to: int | None
    expect: str


@dataclass(frozen=True, slots=True)
class Inject:
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
    """Until the broker leads the partition, as ZooKeeper says; seconds."""

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
    """Until the broker is the controller, as ZooKeeper says; seconds."""

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


Step = Send | Poll | ListOffsets | DeleteRecords | Inject | Revert | WaitLeader | WaitIsr | WaitController | AwaitEvent


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

    def offset(self, key: str) -> int:
        value = self.take(key, 0, lambda v: type(v) is int and v >= 0, "an offset, 0 or more")
        return self._id(value)

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

    def names(self, key: str = "names", default: object = None) -> tuple[str, ...]:
        value = self.take(
            key,
            default,
            lambda v: v == default or (isinstance(v, list) and bool(v) and all(isinstance(n, str) and n for n in v)),
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


def _poll(keys: _Keys) -> Step:
    return Poll(
        keys.partition(),
        keys.offset("position"),
        keys.to(),
        keys.names("finds", []),
        keys.choice("expect", "ok", OUTCOMES),
        keys.seconds(),
    )


def _list_offsets(keys: _Keys) -> Step:
    return ListOffsets(
        keys.partition(),
        keys.choice("of", "latest", ENDS),
        keys.to(),
        keys.offset("reaches"),
        keys.choice("expect", "ok", OUTCOMES),
        keys.seconds(),
    )


def _delete_records(keys: _Keys) -> Step:
    return DeleteRecords(keys.partition(), keys.offset("before"), keys.to(), keys.choice("expect", "ok", OUTCOMES))


def _isolate(keys: _Keys) -> Step:
    """The scope of an isolation is called `from` in scripts, and may be ZooKeeper alone."""
    broker = keys.broker()
    scope = keys.choice("from", "all", SCOPES)
    if scope == "zookeeper":
        return Inject("cut-zookeeper", broker, {})
    return Inject("isolate", broker, {"scope": scope})


def _inject(kind: FaultKind) -> Callable[[_Keys], Step]:
    """A broker, and what of the kind's parameters a script may give."""

    def parse(keys: _Keys) -> Step:
        broker = keys.broker()
        params = {parameter.name: value for parameter in kind.parameters for value in _given(keys, parameter)}
        return Inject(kind.name, broker, params)

    return parse


def _given(keys: _Keys, parameter: Parameter) -> Sequence[object]:
    """The parameter's value, if the script has one: none is drawn then."""
    name, values = parameter.name, parameter.values
    if parameter.script is not InScript.NOTHING and (keys.has(name) or parameter.script is InScript.REQUIRED):
        return [keys.take(name, None, values.holds, values.expected)]
    return [] if parameter.default is None else [parameter.default]


def _undo(verb: str, kinds: Sequence[FaultKind]) -> Callable[[_Keys], Step]:
    uses = [(kind.name, kind.script) for kind in kinds]
    names = tuple(name for name, use in uses if use is not None and use.undo == verb)
    names_broker = all(use.undo_names_broker for _, use in uses if use is not None and use.undo == verb)
    return lambda keys: Revert(names, keys.broker() if names_broker else None)


OWN_VERBS: Mapping[str, Callable[[_Keys], Step]] = {
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


def verbs(kinds: Mapping[str, FaultKind]) -> Mapping[str, Callable[[_Keys], Step]]:
    """Every verb: what clients do, the kinds that scripts may use, what takes these back, and what waits."""
    used = [kind for kind in kinds.values() if kind.script is not None]
    undos = [kind.script.undo for kind in used if kind.script is not None and kind.script.undo is not None]
    return {
        "send": _send,
        "poll": _poll,
        "list-offsets": _list_offsets,
        DELETE_RECORDS: _delete_records,
        **{kind.name: _inject(kind) for kind in used if kind.script is not None and kind.script.verb},
        **({"isolate": _isolate} if "isolate" in kinds else {}),
        **{undo: _undo(undo, used) for undo in undos},
        **OWN_VERBS,
    }


def parse_step(
    step: ScriptStep, brokers: int, partitions: int, all_verbs: Mapping[str, Callable[[_Keys], Step]]
) -> Step:
    """The step as one of the values above. Raises PlanError."""
    verb = all_verbs.get(step.do)
    if verb is None:
        raise PlanError(f"{step.where}: script.do: {step.do!r} is not a verb; allowed: {', '.join(all_verbs)}")
    keys = _Keys(step, brokers, partitions)
    return keys.finish(verb(keys))


def parse_script(
    steps: Sequence[ScriptStep], brokers: int, partitions: int, kinds: Mapping[str, FaultKind] | None = None
) -> tuple[Step, ...]:
    """A script's steps. kinds: the faults that there are, by name; None: those of the installed catalogue.

    Raises PlanError for the first step that is wrong, for a record name that is given twice, or looked for though no
    step before sends it.
    """
    all_verbs = verbs(load_catalogue().kinds if kinds is None else kinds)
    parsed = tuple(parse_step(step, brokers, partitions, all_verbs) for step in steps)
    seen: set[str] = set()
    for given, step in zip(steps, parsed, strict=True):
        for name in step.names if isinstance(step, Send) else ():
            if name in seen:
                raise PlanError(f"{given.where}: script.names: {name!r} was sent before; names are unique in a run")
            seen.add(name)
        for name in step.finds if isinstance(step, Poll) else ():
            if name not in seen:
                raise PlanError(f"{given.where}: script.finds: no step before sends {name!r}")
    return parsed
