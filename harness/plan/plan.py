"""A run file as values: what to run, on what, with which load, faults, checks and limits.

Decides what a run is made of, the allowed values and the defaults (docs/run-files.md). Must not know how
anything of it is carried out, nor how it is written down (`run_file`). Invariant: a `Plan` that exists is usable:
every value is in range.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from harness.plan.fault_kinds import CUTS_POWER, SKEWS_CLOCK, KnownFault
from harness.plan.toml_source import PlanError
from harness.plan.zookeeper_address import parse as parse_address

NODE_KINDS = ("local", "docker", "ssh")
TARGETS = (
    "one",
    "minority",
    "majority",
    "all",
    "leader",
    "follower",
    "last-in-sync",
    "controller",
    "group-coordinator",
    "transaction-coordinator",
)
VERDICTS = ("valid", "invalid", "unknown")
ACKS = {"all": -1, "1": 1, "0": 0}
SEED_MAX = 2**63 - 1
ONLINE_S, ONLINE_LEAST_S, ONLINE_MOST_S = 10.0, 1.0, 3600.0

_EMPTY: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SystemPlan:
    """The system under test. settings: server.properties of every broker; broker: overrides by broker id.

    start_order: broker ids in the order in which they start, so that the first controls; empty: all at once.
    """

    kind: str = "highwater"
    source: str | None = None
    settings: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    broker: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    start_order: tuple[int, ...] = ()

    def settings_of(self, broker_id: int) -> dict[str, str]:
        """What server.properties of that broker holds beyond what the harness itself sets."""
        return {**self.settings, **self.broker.get(broker_id, {})}


@dataclass(frozen=True, slots=True)
class HostPlan:
    """One ssh host. key: path of a private key, or None for the agent's and the default ones."""

    name: str
    host: str
    user: str = "root"
    key: str | None = None
    port: int = 22


@dataclass(frozen=True, slots=True)
class NodesPlan:
    """Nodes n1 … with broker ids 1 …, and zk1 …. hosts: for ssh; none means sshd nodes that the harness makes.

    zookeeper: an ensemble of somebody else's (`harness.plan.zookeeper_address`); then there is no zk1.
    """

    kind: str = "local"
    brokers: int = 3
    zookeepers: int = 1
    hosts: tuple[HostPlan, ...] = ()
    known_hosts: str | None = None
    zookeeper: str | None = None


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """The run's topic. assignment: replicas per partition, preferred leader first; None leaves it to the controller."""

    name: str
    partitions: int
    replication_factor: int
    assignment: tuple[tuple[int, ...], ...] | None = None
    config: Mapping[str, str] = field(default_factory=lambda: _EMPTY)


@dataclass(frozen=True, slots=True)
class WorkloadPlan:
    """Load. acks: -1 (all), 1 or 0; rate: client operations per second, all processes together.

    options: what only this kind of workload knows, for its own check; options_where: file and line of each.
    """

    kind: str = "append-poll"
    acks: int = -1
    producers: int = 6
    consumers: int = 4
    rate: float = 400.0
    time_limit_s: float = 60.0
    request_timeout_ms: int = 3000
    records_per_send: int = 1
    record_bytes: int = 100
    options: Mapping[str, object] = field(default_factory=dict)
    options_where: Mapping[str, str] = field(default_factory=dict, compare=False)

    def given(self) -> dict[str, object]:
        """The keys that every workload has, with their values."""
        return {key: getattr(self, key) for key in self.__slots__ if not key.startswith("options")}


@dataclass(frozen=True, slots=True)
class FaultsPlan:
    """A random mix of faults, drawn from the run's seed. kinds: names of the catalogue's (`nemesis.catalogue`)."""

    kinds: tuple[str, ...]
    targets: tuple[str, ...] = ("one", "leader", "controller", "minority")
    interval_s: tuple[float, float] = (2.0, 4.0)
    duration_s: tuple[float, float] = (4.0, 7.0)
    overlap: int = 1
    only: tuple[int, ...] | None = None
    """Numbers, from 1, of the schedule's faults that are carried out, each when and as it would be; None: all."""


@dataclass(frozen=True, slots=True)
class ScriptStep:
    """One step of a script. Its keys depend on `do`; who carries it out checks them and names `where`."""

    do: str
    params: Mapping[str, object]
    where: str


@dataclass(frozen=True, slots=True)
class ChecksPlan:
    """Figures that the run file requires; None leaves the checkers' own."""

    acknowledged: int | None = None
    election_faults: int | None = None
    lag_shrinks: int | None = None
    expansions: int | None = None
    heads_deleted: int | None = None
    last_in_sync_hit: int | None = None

    def given(self) -> dict[str, int]:
        """The figures that the run file sets, by key; the checkers have defaults for the others."""
        figures = {
            "acknowledged": self.acknowledged,
            "election_faults": self.election_faults,
            "lag_shrinks": self.lag_shrinks,
            "expansions": self.expansions,
            "heads_deleted": self.heads_deleted,
            "last_in_sync_hit": self.last_in_sync_hit,
        }
        return {name: figure for name, figure in figures.items() if figure is not None}


@dataclass(frozen=True, slots=True)
class LimitsPlan:
    """Time-outs. drain_s bounds each wait for full ISRs and each drain round; analysis_s None: as long as checkers get
    jobs done (`harness.runs.analysis`).
    """

    setup_s: float = 60.0
    drain_s: float = 60.0
    analysis_s: float | None = None

    def given(self) -> dict[str, float]:
        """What a run file or run.json says of them, in seconds; without analysis_s where the history decides."""
        figures = {"setup_s": self.setup_s, "drain_s": self.drain_s, "analysis_s": self.analysis_s}
        return {name: figure for name, figure in figures.items() if figure is not None}


@dataclass(frozen=True, slots=True)
class OnlinePlan:
    """Judging while the run goes on. every_s: how often at most; stop_on_invalid: a finding ends the main phase;
    niceness: of who judges.
    """

    every_s: float = ONLINE_S
    stop_on_invalid: bool = False
    niceness: int = 10

    def given(self) -> dict[str, object]:
        """As a run file or run.json has it."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole run. `seed` is None until it is drawn; `faults` is None for none; at most one of faults and script."""

    name: str
    topic: TopicPlan
    seed: int | None = None
    system: SystemPlan = field(default_factory=SystemPlan)
    nodes: NodesPlan = field(default_factory=NodesPlan)
    workload: WorkloadPlan = field(default_factory=WorkloadPlan)
    faults: FaultsPlan | None = None
    script: tuple[ScriptStep, ...] = ()
    checks: ChecksPlan = field(default_factory=ChecksPlan)
    limits: LimitsPlan = field(default_factory=LimitsPlan)
    online: OnlinePlan | None = None
    """None: it is judged once it is over."""
    expect: str = "valid"
    """The verdict that a nightly run counts as success: a run file may be there to show that the lab sees a bug."""
    expect_found: tuple[str, ...] = ()
    """Where invalid is expected: checkers of which at least one must say so; empty: any checker."""
    fault_kinds: tuple[KnownFault, ...] = field(default=(), compare=False)
    """The descriptions, from the catalogue that the run file was read with, of the kinds that [faults] or a script
    names.
    """

    remade_topics: tuple[str, ...] = field(default=(), compare=False)
    """Topics, beside the run's own, that its workload deletes and makes anew under their names, again and again. The
    run sets it: the workload knows.
    """

    places: Mapping[str, str] = field(default_factory=lambda: _EMPTY, compare=False)
    """Where a setting stands, `file:line` by `table.name`, for errors."""

    def place(self, key: str) -> str:
        """Where the key of a run file stands, as far as `places` has it."""
        return self.places.get(key, self.name)

    @property
    def seed_drawn(self) -> int:
        """The seed of a run under way."""
        assert self.seed is not None, "draw a seed first: with_overrides(seed=…)"
        return self.seed

    @property
    def min_insync_replicas(self) -> int:
        """The least that any broker applies: the topic's, else its own, else 1; clamped to the replication factor."""
        key = "min.insync.replicas"
        own = [self.system.settings_of(broker).get(key, "1") for broker in range(1, self.nodes.brokers + 1)]
        texts = [self.topic.config[key]] if key in self.topic.config else own
        return min(self.topic.replication_factor, *map(int, texts))

    @property
    def copies_acknowledged(self) -> int:
        """How many replicas surely hold a record when a process of the load gets its acknowledgement."""
        return 1 if self.workload.acks == 1 else self.min_insync_replicas

    @property
    def skews_clocks(self) -> bool:
        """Whether some fault of the run sets the wall clocks of brokers, which must then start prepared for it."""
        return any(SKEWS_CLOCK in kind.effects for kind in self.fault_kinds)

    @property
    def cuts_power(self) -> bool:
        """Whether some fault of the run has brokers lose power, whose data must then be on disks of their own."""
        return any(CUTS_POWER in kind.effects for kind in self.fault_kinds)

    @property
    def unclean_leader_election(self) -> bool:
        """Whether the run permits elections that may lose acknowledged records; Kafka's default is false."""
        return self._effective("unclean.leader.election.enable", "false").lower() == "true"

    def _effective(self, key: str, default: str) -> str:
        return self.topic.config.get(key, self.system.settings.get(key, default))

    def with_overrides(
        self,
        *,
        seed: int | None = None,
        nodes: str | None = None,
        zookeeper: str | None = None,
        time_limit_s: float | None = None,
        rate: float | None = None,
        concurrency: int | None = None,
        online_s: float | None = None,
        stop_on_invalid: bool = False,
    ) -> Plan:
        """The plan with command line options applied. Raises PlanError for what the run file could not hold either."""
        plan = self
        if seed is not None:
            if not 0 <= seed <= SEED_MAX:
                raise PlanError(f"--seed: {seed} is not a whole number from 0 to {SEED_MAX}")
            plan = replace(plan, seed=seed)
        if nodes is not None:
            if nodes not in NODE_KINDS:
                raise PlanError(f"--nodes: {nodes!r} is not one of {', '.join(NODE_KINDS)}")
            plan = replace(plan, nodes=replace(plan.nodes, kind=nodes))
        if zookeeper is not None:
            try:
                parse_address(zookeeper)
            except ValueError as error:
                raise PlanError(f"--zookeeper: {error}") from None
            plan = replace(plan, nodes=replace(plan.nodes, zookeeper=zookeeper, zookeepers=0))
        workload = plan.workload
        if time_limit_s is not None:
            if not 1 <= time_limit_s <= 86_400:
                raise PlanError(f"--time-limit: {time_limit_s:g} is not a number from 1 to 86400 (seconds)")
            workload = replace(workload, time_limit_s=time_limit_s)
        if rate is not None:
            if not 0.1 <= rate <= 100_000:
                raise PlanError(f"--rate: {rate:g} is not a number from 0.1 to 100000 (operations per second)")
            workload = replace(workload, rate=rate)
        if concurrency is not None:
            workload = _with_concurrency(workload, concurrency)
        return replace(plan, workload=workload, online=_online(plan.online, online_s, stop_on_invalid))


def _online(given: OnlinePlan | None, every_s: float | None, stop_on_invalid: bool) -> OnlinePlan | None:
    """What the run file says of it, with both options applied: each has the run judged while it goes on."""
    if every_s is not None and not ONLINE_LEAST_S <= every_s <= ONLINE_MOST_S:
        least, most = ONLINE_LEAST_S, ONLINE_MOST_S
        raise PlanError(f"--online: {every_s:g} is not a number from {least:g} to {most:g} (seconds)")
    if every_s is None and not stop_on_invalid:
        return given
    before = given or OnlinePlan()
    often_s = before.every_s if every_s is None else every_s
    return replace(before, every_s=often_s, stop_on_invalid=stop_on_invalid or before.stop_on_invalid)


def _with_concurrency(workload: WorkloadPlan, concurrency: int) -> WorkloadPlan:
    """N processes in all, senders and pollers in the run file's proportion, at least one of each kind that it has."""
    if not 2 <= concurrency <= 1000:
        raise PlanError(f"--concurrency: {concurrency} is not a whole number from 2 to 1000 (processes in all)")
    share = workload.producers / max(1, workload.producers + workload.consumers)
    producers = min(concurrency - 1, max(1, round(concurrency * share)))
    return replace(workload, producers=producers, consumers=concurrency - producers)
