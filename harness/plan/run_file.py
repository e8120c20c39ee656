"""Reads a run file into a `Plan`, and writes one back.

Decides which keys a run file has and what each may hold (docs/run-files.md). Must not know what a plan is used for.
Invariants: no key is ignored; `parse_plan(render(plan)) == plan` but for the places that script steps name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from harness.plan.extensions import SYSTEMS, WORKLOADS
from harness.plan.fault_kinds import NO_FAULTS, KnownFault
from harness.plan.plan import (
    ACKS,
    NODE_KINDS,
    ONLINE_LEAST_S,
    ONLINE_MOST_S,
    ONLINE_S,
    SEED_MAX,
    TARGETS,
    VERDICTS,
    ChecksPlan,
    FaultsPlan,
    HostPlan,
    LimitsPlan,
    NodesPlan,
    OnlinePlan,
    Plan,
    ScriptStep,
    SystemPlan,
    TopicPlan,
    WorkloadPlan,
)
from harness.plan.toml_source import PlanError, Source, Table, parse, show
from harness.plan.toml_text import section, value_text
from harness.plan.zookeeper_address import parse as parse_address

EXPECTATION = ".expect.toml"
LOSSES = ("lost-write", "lost-tail")
"""Checkers that are most often expected to say invalid; other names are taken as well."""


def load(path: Path, faults: Mapping[str, KnownFault] = NO_FAULTS) -> Plan:
    """Read a run file. faults: all kinds that there are, by name.

    Raises PlanError with file, line, key, value found and what is allowed.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{path}: cannot be read: {error}") from None
    return parse_plan(str(path), text, faults)


def load_expectation(path: Path, plan: Plan) -> Plan:
    """The plan with what `<name>.expect.toml` beside its run file says a night expects of it, if there is one."""
    beside = path.with_suffix(EXPECTATION)
    if not beside.exists():
        return plan
    source, values = parse(str(beside), beside.read_text(encoding="utf-8"))
    top = Table(source, (), values)
    expect, found = _expectation(top)
    top.finish()
    return replace(plan, expect=expect, expect_found=found)


def _expectation(top: Table) -> tuple[str, tuple[str, ...]]:
    return (
        top.text("expect", "valid", allowed=VERDICTS),
        top.names("expect_found", (), allowed=LOSSES, pattern="[a-z0-9-]+"),
    )


def parse_plan(name: str, text: str, faults: Mapping[str, KnownFault] = NO_FAULTS) -> Plan:
    """A plan from TOML text; `name` is what errors call the file, faults are all kinds that there are, by name."""
    source, values = parse(name, text)
    top = Table(source, (), values)
    nodes = _nodes(top.table("nodes"))
    expect, expect_found = _expectation(top)
    plan = Plan(
        name=top.text("name", pattern="[a-z0-9-]+"),
        seed=top.optional_integer("seed", low=0, high=SEED_MAX),
        system=_system(top.table("system"), nodes.brokers),
        nodes=nodes,
        topic=_topic(top.table("topic"), nodes.brokers),
        workload=_workload(top.table("workload")),
        faults=_faults(top.table("faults"), nodes, faults) if top.has("faults") else None,
        script=_script(source, top.tables("script")),
        checks=_checks(top.table("checks")),
        limits=_limits(top.table("limits")),
        online=_online(top.table("online")) if top.has("online") else None,
        expect=expect,
        expect_found=expect_found,
    )
    top.finish()
    _check_min_insync(source, plan)
    if plan.faults is not None and plan.script:
        raise source.error(("script", 0), "a run has [faults] or [[script]], not both")
    named = plan.faults.kinds if plan.faults is not None else tuple(step.do for step in plan.script)
    kinds = tuple(kind for name, kind in faults.items() if name in named)
    return replace(plan, fault_kinds=kinds, places=_places(source, plan))


def _places(source: Source, plan: Plan) -> Mapping[str, str]:
    """Of every setting that the run file gives, and of the tables that they stand in."""
    tables: dict[tuple[str, ...], Mapping[str, str]] = {
        ("system", "settings"): plan.system.settings,
        ("topic", "config"): plan.topic.config,
        **{("system", "broker", str(broker)): own for broker, own in plan.system.broker.items()},
    }
    paths = [(*path, *name) for path, settings in tables.items() for name in [(), *((one,) for one in settings)]]
    return {".".join(path): f"{source.name}:{_line(source, path)}" for path in paths}


def _line(source: Source, path: tuple[str, ...]) -> int:
    """A name with dots stands quoted, or as keys in keys."""
    return source.lines.get((*path[:-1], *path[-1].split(".")), source.line(path)) if path else 1


def _check_min_insync(source: Source, plan: Plan) -> None:
    key = "min.insync.replicas"
    places: list[tuple[tuple[str, ...], Mapping[str, str]]] = [
        (("system", "settings"), plan.system.settings),
        (("topic", "config"), plan.topic.config),
        *((("system", "broker", str(broker)), own) for broker, own in plan.system.broker.items()),
    ]
    for path, settings in places:
        text = settings.get(key, "1")
        if not text.isdigit() or not 1 <= int(text) <= 30:
            raise source.error((*path, key), f"{show(text)} is not a whole number from 1 to 30")


def _system(table: Table, brokers: int) -> SystemPlan:
    overrides: dict[int, Mapping[str, str]] = {}
    per_broker = table.table("broker")
    for key in per_broker.values:
        if not key.isdigit() or not 1 <= int(key) <= brokers:
            raise per_broker.error(key, f"{show(key)} is not a broker id of this run; they are 1 to {brokers}")
        overrides[int(key)] = per_broker.table(key).properties()
    system = SystemPlan(
        kind=table.text("kind", "highwater", allowed=SYSTEMS.names()),
        source=table.optional_text("source"),
        settings=table.table("settings").properties(),
        broker=overrides,
        start_order=_start_order(table, brokers),
    )
    table.finish()
    return system


def _start_order(table: Table, brokers: int) -> tuple[int, ...]:
    raw = table.raw("start_order")
    if raw is None:
        return ()
    ids = list(range(1, brokers + 1))
    if not isinstance(raw, list) or any(type(item) is not int for item in raw) or sorted(raw) != ids:
        raise table.error("start_order", f"{show(raw)} is not a list of all broker ids, {ids} in some order")
    return tuple(raw)


def _nodes(table: Table) -> NodesPlan:
    hosts = []
    for item in table.tables("hosts"):
        hosts.append(
            HostPlan(
                name=item.text("name", pattern="(n|zk)[1-9][0-9]*"),
                host=item.text("host"),
                user=item.text("user", "root"),
                key=item.optional_text("key"),
                port=item.integer("port", 22, low=1, high=65535),
            )
        )
        item.finish()
    zookeeper = table.optional_text("zookeeper")
    if zookeeper is not None:
        try:
            parse_address(zookeeper)
        except ValueError as error:
            raise table.error("zookeeper", str(error)) from None
    external = zookeeper is not None
    nodes = NodesPlan(
        kind=table.text("kind", "local", allowed=NODE_KINDS),
        brokers=table.integer("brokers", 3, low=1, high=30),
        zookeepers=table.integer(
            "zookeepers", 0 if external else 1, low=0 if external else 1, high=0 if external else 7
        ),
        hosts=tuple(hosts),
        known_hosts=table.optional_text("known_hosts"),
        zookeeper=zookeeper,
    )
    needed = [f"n{i + 1}" for i in range(nodes.brokers)] + [f"zk{i + 1}" for i in range(nodes.zookeepers)]
    missing = [name for name in needed if name not in {host.name for host in hosts}]
    if hosts and missing:
        raise table.error("hosts", f"no entry for {', '.join(missing)}; name one for every node, or none at all")
    table.finish()
    return nodes


def _topic(table: Table, brokers: int) -> TopicPlan:
    raw = table.raw("assignment")
    assignment: tuple[tuple[int, ...], ...] | None = None
    if raw is not None:
        assignment = _assignment(table, raw, brokers)
    given = {len(replicas) for replicas in assignment or ()}
    partitions = table.integer("partitions", len(assignment) if assignment else 1, low=1, high=1000)
    replication_factor = table.integer(
        "replication_factor", given.pop() if given else min(3, brokers), low=1, high=brokers
    )
    if assignment is not None:
        if len(assignment) == 1:
            assignment = assignment * partitions
        if len(assignment) != partitions:
            raise table.error(
                "assignment", f"{len(assignment)} lists for {partitions} partitions; give one for each, or one for all"
            )
        if any(len(replicas) != replication_factor for replicas in assignment):
            raise table.error("assignment", f"each list needs replication_factor = {replication_factor} brokers")
    topic = TopicPlan(
        name=table.text("name", "hw", pattern="[a-zA-Z0-9._-]{1,100}"),
        partitions=partitions,
        replication_factor=replication_factor,
        assignment=assignment,
        config=table.table("config").properties(),
    )
    table.finish()
    return topic


def _assignment(table: Table, raw: object, brokers: int) -> tuple[tuple[int, ...], ...]:
    expected = f"a list of lists of distinct broker ids 1 to {brokers}, one list a partition, all equally long"
    if not isinstance(raw, list) or not raw:
        raise table.error("assignment", f"{show(raw)} is not {expected}")
    for replicas in raw:
        good = isinstance(replicas, list) and bool(replicas)
        good = good and all(isinstance(b, int) and not isinstance(b, bool) and 1 <= b <= brokers for b in replicas)
        if not good or len(set(replicas)) != len(replicas) or len(replicas) != len(raw[0]):
            raise table.error("assignment", f"{show(replicas)} in {show(raw)} is not {expected}")
    return tuple(tuple(replicas) for replicas in raw)


def _workload(table: Table) -> WorkloadPlan:
    acks = table.raw("acks")
    text = "all" if acks is None else str(acks)
    if text not in ACKS or isinstance(acks, bool | float):
        raise table.error("acks", f"{show(acks)} is not one of {', '.join(ACKS)}")
    options = table.table("options")
    workload = WorkloadPlan(
        kind=table.text("kind", "append-poll", allowed=WORKLOADS.names()),
        acks=ACKS[text],
        producers=table.integer("producers", 6, low=0, high=1000),
        consumers=table.integer("consumers", 4, low=0, high=1000),
        rate=table.number("rate", 400.0, low=0.1, high=100_000),
        time_limit_s=table.number("time_limit_s", 60.0, low=1, high=86_400),
        request_timeout_ms=table.integer("request_timeout_ms", 3000, low=50, high=600_000),
        records_per_send=table.integer("records_per_send", 1, low=1, high=10_000),
        record_bytes=table.integer("record_bytes", 100, low=0, high=1_000_000),
        options=options.values,
        options_where={key: f"{table.source.name}:{table.source.line((*options.path, key))}" for key in options.values},
    )
    table.finish()
    return workload


def _faults(table: Table, nodes: NodesPlan, known: Mapping[str, KnownFault]) -> FaultsPlan:
    defaults = FaultsPlan(tuple(name for name, kind in known.items() if kind.at_random))
    names = tuple(f"n{i + 1}" for i in range(nodes.brokers))
    faults = FaultsPlan(
        kinds=table.names("kinds", defaults.kinds, allowed=tuple(known)),
        targets=table.names("targets", defaults.targets, allowed=(*TARGETS, *names)),
        interval_s=table.span("interval_s", defaults.interval_s, low=0, high=3600),
        duration_s=table.span("duration_s", defaults.duration_s, low=0.1, high=3600),
        overlap=table.integer("overlap", 1, low=1, high=10),
        only=_only(table),
    )
    table.finish()
    return faults


def _only(table: Table) -> tuple[int, ...] | None:
    raw = table.raw("only")
    if raw is None:
        return None
    if not isinstance(raw, list) or any(type(item) is not int or item < 1 for item in raw) or len(set(raw)) != len(raw):
        raise table.error("only", f"{show(raw)} is not a list of distinct whole numbers from 1 on")
    return tuple(raw)


def _script(source: Source, tables: Sequence[Table]) -> tuple[ScriptStep, ...]:
    steps = []
    for table in tables:
        do = table.text("do")
        params = {key: value for key, value in table.values.items() if key != "do"}
        steps.append(ScriptStep(do, MappingProxyType(params), f"{source.name}:{source.line(table.path)}"))
    return tuple(steps)


def _checks(table: Table) -> ChecksPlan:
    high = 10**9
    checks = ChecksPlan(
        acknowledged=table.optional_integer("acknowledged", low=0, high=high),
        election_faults=table.optional_integer("election_faults", low=0, high=high),
        lag_shrinks=table.optional_integer("lag_shrinks", low=0, high=high),
        expansions=table.optional_integer("expansions", low=0, high=high),
        heads_deleted=table.optional_integer("heads_deleted", low=0, high=high),
        last_in_sync_hit=table.optional_integer("last_in_sync_hit", low=0, high=high),
    )
    table.finish()
    return checks


def _limits(table: Table) -> LimitsPlan:
    limits = LimitsPlan(
        setup_s=table.number("setup_s", 60.0, low=1, high=86_400),
        drain_s=table.number("drain_s", 60.0, low=1, high=86_400),
        analysis_s=table.number("analysis_s", 300.0, low=1, high=86_400) if table.has("analysis_s") else None,
    )
    table.finish()
    return limits


def _online(table: Table) -> OnlinePlan:
    online = OnlinePlan(
        every_s=table.number("every_s", ONLINE_S, low=ONLINE_LEAST_S, high=ONLINE_MOST_S),
        stop_on_invalid=table.flag("stop_on_invalid", default=False),
        niceness=table.integer("niceness", 10, low=0, high=19),
    )
    table.finish()
    return online


def render(plan: Plan) -> str:
    """The plan as a run file: what `store/…/run.toml` holds, every default spelt out."""
    system: dict[str, object] = {"kind": plan.system.kind}
    if plan.system.source is not None:
        system["source"] = plan.system.source
    if plan.system.start_order:
        system["start_order"] = plan.system.start_order
    nodes: dict[str, object] = {
        "kind": plan.nodes.kind,
        "brokers": plan.nodes.brokers,
        "zookeepers": plan.nodes.zookeepers,
    }
    if plan.nodes.hosts:
        nodes["hosts"] = [
            {"name": h.name, "host": h.host, "user": h.user, "port": h.port, **({"key": h.key} if h.key else {})}
            for h in plan.nodes.hosts
        ]
    if plan.nodes.zookeeper is not None:
        nodes["zookeeper"] = plan.nodes.zookeeper
    if plan.nodes.known_hosts is not None:
        nodes["known_hosts"] = plan.nodes.known_hosts
    topic: dict[str, object] = {
        "name": plan.topic.name,
        "partitions": plan.topic.partitions,
        "replication_factor": plan.topic.replication_factor,
    }
    if plan.topic.assignment is not None:
        topic["assignment"] = plan.topic.assignment
    workload = plan.workload.given()
    workload["acks"] = "all" if plan.workload.acks == -1 else plan.workload.acks
    out = [f"name = {value_text(plan.name)}"]
    if plan.seed is not None:
        out.append(f"seed = {plan.seed}")
    if plan.expect != "valid":
        out.append(f"expect = {value_text(plan.expect)}")
    if plan.expect_found:
        out.append(f"expect_found = {value_text(plan.expect_found)}")
    section(out, "[system]", system)
    section(out, "[system.settings]", plan.system.settings)
    for broker_id, settings in sorted(plan.system.broker.items()):
        section(out, f"[system.broker.{broker_id}]", settings)
    section(out, "[nodes]", nodes)
    section(out, "[topic]", topic)
    section(out, "[topic.config]", plan.topic.config)
    section(out, "[workload]", workload)
    section(out, "[workload.options]", plan.workload.options)
    if plan.faults is not None:
        faults = {key: getattr(plan.faults, key) for key in plan.faults.__slots__}
        section(out, "[faults]", {key: value for key, value in faults.items() if value is not None})
    for step in plan.script:
        section(out, "[[script]]", {"do": step.do, **step.params})
    section(out, "[checks]", plan.checks.given())
    section(out, "[limits]", plan.limits.given())
    if plan.online is not None:
        section(out, "[online]", plan.online.given())
    return "\n".join(out) + "\n"
