"""The toy family of faults: the toy broker's clock is set ahead, in a file that it reads again and again."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from random import Random

from harness.nodes.base import Node
from harness.plan.fault_kinds import SKEWS_CLOCK
from nemesis.base import NOTHING_WANTED, ClusterView, Family, Injection, Observation
from nemesis.kinds import FaultKind, InScript, Number, Parameter
from nemesis.targets import choose
from nemesis.waiting import until
from toy_lab.server import CLOCK, SEEN

NAME = "toy-clock"
TOMORROW = FaultKind(
    "tomorrow",
    NAME,
    frozenset({SKEWS_CLOCK}),
    at_random=False,
    does="the toy broker's clock is a day or two ahead",
    seen_by="what the toy broker writes of its clock",
    parameters=(Parameter("offset_s", Number("seconds", low=0.0), "one to two days", InScript.DRAWN),),
)
OBSERVE_S = 5.0


class Tomorrow:
    """Implements `nemesis.base.Fault`."""

    kind = TOMORROW

    def probe(self, view: ClusterView) -> str | None:
        strange = [node.name for node in view.broker_nodes if view.daemon(node.name) != "toy"]
        return f"{strange[0]} runs no toy broker" if strange else None

    def draw(
        self, rng: Random, view: ClusterView, target: str, wanted: Mapping[str, object] = NOTHING_WANTED
    ) -> Injection:
        params = {"offset_s": float(rng.randint(86_400, 2 * 86_400)), **wanted}
        return Injection(self.kind.name, choose(target, rng, view), params)

    def claims(self, injection: Injection) -> frozenset[str]:
        return frozenset(f"clock:{name}" for name in injection.targets)

    def start(self, view: ClusterView, injection: Injection) -> Observation:
        return self._set(view, injection.targets, str(injection.params["offset_s"]))

    def stop(self, view: ClusterView, injection: Injection) -> Observation:
        return self._set(view, injection.targets, "0.0")

    def _set(self, view: ClusterView, targets: tuple[str, ...], ahead_s: str) -> Observation:
        seen = {}
        for node in map(view.node, targets):
            node.write_text(f"{node.root}/{CLOCK}", ahead_s)
            seen[node.name] = until(partial(self._sees, node, ahead_s), OBSERVE_S)
        text = "; ".join(f"{name}: {'' if yes else 'not '}{ahead_s} s ahead" for name, yes in seen.items())
        return Observation(all(seen.values()), text)

    def _sees(self, node: Node, ahead_s: str) -> bool:
        return node.read_text(f"{node.root}/{SEEN}") == ahead_s


FAMILY = Family(NAME, lambda: (Tomorrow(),))
