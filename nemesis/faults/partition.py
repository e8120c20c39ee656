"""Faults of the network: links between nodes are cut by rules inside the nodes.

Brokers and ZooKeeper servers are the nodes; the harness keeps reaching all of them. What is cut is a grudge
(`grudges`); what is seen is what a datagram exchange between the nodes heard, and the rules in force. One partition at
a time: they all claim the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from harness.nodes import firewall
from harness.nodes.base import CommandFailed, Node
from harness.plan.fault_kinds import CUTS_LINKS, NAMES_NO_VICTIM
from nemesis.base import NOTHING_WANTED, ClusterView, Family, Heal, Injection, Observation, Unavailable
from nemesis.faults import grudges, reach
from nemesis.kinds import Choice, FaultKind, Grudge, InScript, Opening, Outlasts, Parameter, ScriptUse, Timing, Turn
from nemesis.targets import choose

TRIES = 3
"""A datagram exchange in which a node's probe came too late misses live links; it is repeated this often."""


def isolation_scope(timing: Timing) -> str:
    """`all` when a follower cut off from everyone leaves the ISR for lag before its session ends, else `brokers`.

    A leader proposes the shrink up to 1.5 x the lag time after the cut; ZooKeeper ends a session that long after the
    last heartbeat, and heartbeats are a third of the session time-out apart.
    """
    if timing.session_s is None or timing.lag_s is None:
        return "all"
    return "all" if 1.5 * timing.lag_s < timing.session_s * 2 / 3 else "brokers"


NAME = "partition"
_OF_EVERY_CUT = (
    Parameter("reject", Choice((False, True)), "false: packets are dropped without a reply"),
    Parameter("grudge", Grudge(), "follows from the rest"),
)
ISOLATE = FaultKind(
    "isolate",
    NAME,
    frozenset({CUTS_LINKS}),
    does="each target is cut from every other broker and from ZooKeeper, both ways; with `scope` = `brokers` from the "
    "brokers only",
    seen_by="links",
    parameters=(
        Parameter("scope", Choice(("all", "brokers")), "`all`", InScript.DRAWN),
        *_OF_EVERY_CUT,
    ),
    outlasts=Outlasts.SESSION_AND_LAG,
    opening=Opening(Turn.FOLLOWER_LAGS, "follower", wanted=lambda timing: {"scope": isolation_scope(timing)}),
    script=ScriptUse(undo="heal-links", undo_names_broker=False),
)
HALVES = FaultKind(
    "halves",
    NAME,
    frozenset({CUTS_LINKS, NAMES_NO_VICTIM}),
    does="all nodes in two halves, drawn at random",
    seen_by="links",
    parameters=_OF_EVERY_CUT,
    outlasts=Outlasts.SESSION_AND_LAG,
)
MAJORITY_RING = FaultKind(
    "majority-ring",
    NAME,
    frozenset({CUTS_LINKS, NAMES_NO_VICTIM}),
    does="every node sees a majority, no two the same; needs 4 nodes (three brokers and a ZooKeeper are 4)",
    seen_by="links",
    parameters=_OF_EVERY_CUT,
    outlasts=Outlasts.SESSION_AND_LAG,
)
ONE_WAY = FaultKind(
    "one-way",
    NAME,
    frozenset({CUTS_LINKS}),
    does="packets from the targets (`direction` = `from`), or to them (`to`), are lost; the other way works",
    seen_by="links",
    parameters=(Parameter("direction", Choice(("from", "to")), "either"), *_OF_EVERY_CUT),
    outlasts=Outlasts.SESSION_AND_LAG,
    opening=Opening(Turn.LEADER_GOES_OTHERWISE, "leader", place=1, wanted=lambda _timing: {"direction": "from"}),
)
CUT_ZOOKEEPER = FaultKind(
    "cut-zookeeper",
    NAME,
    frozenset({CUTS_LINKS}),
    does="the targets are cut from the ZooKeeper servers only",
    seen_by="links",
    parameters=_OF_EVERY_CUT,
    outlasts=Outlasts.ELECTION,
    opening=Opening(Turn.LEADER_GOES_OTHERWISE, "leader", place=2),
    script=ScriptUse(verb=False, undo="heal-links", undo_names_broker=False),
)
SHAPES = (ISOLATE, HALVES, MAJORITY_RING, ONE_WAY, CUT_ZOOKEEPER)


class Partition:
    """One shape of partition. The grudge is drawn with the injection, so params say exactly what was cut."""

    def __init__(self, kind: FaultKind) -> None:
        """kind: one of `SHAPES`."""
        self.kind = kind

    def probe(self, view: ClusterView) -> str | None:
        if self.kind is MAJORITY_RING and not grudges.ring_possible(len(_nodes(view))):
            return f"a majority ring needs 4 nodes or more, this run has {len(_nodes(view))}"
        missing = [said for said in map(firewall.probe, _nodes(view)) if said is not None]
        return missing[0] if missing else None

    def draw(
        self, rng: Random, view: ClusterView, target: str, wanted: Mapping[str, object] = NOTHING_WANTED
    ) -> Injection:
        """params: grudge (node → nodes whose packets it drops), reject, and what the shape adds.

        Raises Unavailable when this shape would cut nothing here.
        """
        brokers = [node.name for node in view.broker_nodes]
        zookeepers = [node.name for node in view.zookeeper_nodes]
        everyone = [*brokers, *zookeepers]
        params: dict[str, object] = {"reject": False, **wanted}
        targets: tuple[str, ...]
        match self.kind.name:
            case "isolate":
                targets = choose(target, rng, view)
                scope = params.setdefault("scope", "all")
                grudge = grudges.isolate(everyone if scope == "all" else brokers, frozenset(targets))
            case "halves":
                rng.shuffle(everyone)
                grudge = grudges.halves(everyone)
                targets = tuple(everyone[: len(everyone) // 2])
            case "majority-ring":
                if not grudges.ring_possible(len(everyone)):
                    raise Unavailable(f"a majority ring needs 4 nodes or more, this run has {len(everyone)}")
                rng.shuffle(everyone)
                grudge = grudges.majority_ring(everyone)
                targets = tuple(everyone)
            case "one-way":
                targets = choose(target, rng, view)
                direction = params.setdefault("direction", rng.choice(("from", "to")))
                grudge = grudges.one_way(everyone, frozenset(targets), "from" if direction == "from" else "to")
            case "cut-zookeeper":
                targets = tuple(name for name in choose(target, rng, view) if name in brokers)
                grudge = grudges.between(frozenset(targets), frozenset(zookeepers))
            case _:
                raise AssertionError(f"unknown shape {self.kind.name}")
        if not grudges.links(grudge):
            raise Unavailable(f"{self.kind.name} of {', '.join(targets)} cuts no link in this run")
        params["grudge"] = {receiver: sorted(senders) for receiver, senders in sorted(grudge.items())}
        return Injection(self.kind.name, targets, params)

    def claims(self, injection: Injection) -> frozenset[str]:
        # A broker that starts while it cannot reach ZooKeeper gives up: a node cut off from it is not restarted.
        alone = () if self.kind is MAJORITY_RING else injection.targets
        return frozenset({"network", *(f"process:{name}" for name in alone)})

    def start(self, view: ClusterView, injection: Injection) -> Observation:
        grudge = _grudge(injection)
        reject = bool(injection.params.get("reject", False))
        # A script may cut twice: what is seen is everything that is cut then.
        before = frozenset(link for node in _nodes(view) for link in _ruled(view, node))
        for receiver, senders in grudge.items():
            firewall.cut(view.node(receiver), [view.node(sender).address for sender in sorted(senders)], reject=reject)
        return self._observe(view, before | grudges.links(grudge))

    def stop(self, view: ClusterView, injection: Injection) -> Observation:
        """Remove the rules of every node, whatever was cut."""
        heal_all(view)
        return self._observe(view, frozenset())

    def _observe(self, view: ClusterView, cut: frozenset[tuple[str, str]]) -> Observation:
        """Seen when exactly the cut links are silent, and the nodes' rules name exactly those links."""
        nodes = _nodes(view)
        every = frozenset((a.name, b.name) for a in nodes for b in nodes if a.name != b.name)
        heard: frozenset[tuple[str, str]] = frozenset()
        deaf: frozenset[str] = frozenset()
        for _ in range(TRIES):
            exchange = reach.exchange(nodes)
            heard, deaf = heard | exchange.links, exchange.deaf
            if heard & cut or (every - cut <= heard and not deaf):
                break
        ruled = frozenset(link for node in nodes for link in _ruled(view, node))
        seen = heard == every - cut and ruled == cut and not deaf
        silent = _show(every - heard)
        count = f"datagrams heard on {len(heard)} of {len(every)} links"
        if deaf:
            # Its silence says nothing of its links.
            count += f" (no probe ran on {', '.join(sorted(deaf))})"
        text = f"{count}; silent: {silent}; dropped by rule: {_show(ruled)}"
        return Observation(seen, text)


def heal_all(view: ClusterView) -> None:
    """Remove all cuts of all nodes; every node is tried before an error is raised."""
    errors: list[str] = []
    for node in _nodes(view):
        try:
            firewall.heal(node)
        except firewall.FirewallMissing:
            continue  # Nothing was ever cut there: the tool is chosen once, and it did not work.
        except CommandFailed as error:
            errors.append(str(error))
    if errors:
        raise CommandFailed("; ".join(errors))


def _ruled(view: ClusterView, node: Node) -> list[tuple[str, str]]:
    cut = {rule.source for rule in firewall.rules(node)}
    return [(sender.name, node.name) for sender in _nodes(view) if sender.address in cut]


def _grudge(injection: Injection) -> grudges.Grudge:
    stored = injection.params["grudge"]
    assert isinstance(stored, Mapping)
    return {str(receiver): frozenset(senders) for receiver, senders in stored.items()}


def _nodes(view: ClusterView) -> list[Node]:
    return [*view.broker_nodes, *view.zookeeper_nodes]


def _show(links: frozenset[tuple[str, str]]) -> str:
    return ", ".join(f"{sender}>{receiver}" for sender, receiver in sorted(links)) or "none"


FAMILY = Family(NAME, lambda: [Partition(shape) for shape in SHAPES], sweep=heal_all, heal=Heal.FIRST)
