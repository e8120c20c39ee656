"""Faults of files: bits flip, files are cut off or vanish, on one replica.

The broker is killed first (`while` = down), or goes on over the damaged file (up). Nothing is taken back: the system
must notice, and restore the replica from its leader; the end of the fault starts a killed broker again. What is seen is
that the bytes differ: whether the broker ever met them shows in its event log, later
(checkers/coverage/damage_met.py). All file faults of a run hit the same node, drawn by the first: damage that is not
noticed yet must not meet a second one, for then no copy might be whole. Nor may that node have had the only copy of
what was acknowledged, as the last one in an ISR may with `min.insync.replicas` = 1: whoever loses it then is no
broker. Must not know formats beyond what `file_damage` names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from random import Random

from harness.plan.fault_kinds import CUTS_POWER, DAMAGES_FILES, STOPS_PROCESS
from nemesis.base import NOTHING_WANTED, ClusterView, Family, Injection, Observation, Unavailable
from nemesis.faults.file_damage import FILES, PROGRAM
from nemesis.faults.power import SEEN_BY, PowerFailure
from nemesis.faults.process import Kill, process_state
from nemesis.kinds import Choice, FaultKind, InScript, Opening, Parameter, ScriptUse, Turn, Whole
from nemesis.targets import choose

SEED_MAX = 2**31 - 1
WHENCE = ("down", "up")


def _kind(name: str, does: str, files: tuple[str, ...]) -> FaultKind:
    return FaultKind(
        name,
        NAME,
        frozenset({DAMAGES_FILES}),
        at_random=False,
        does=does,
        seen_by="files",
        parameters=(
            Parameter("file", Choice(FILES), ", ".join(f"`{file}`" for file in files), InScript.DRAWN, "segment"),
            Parameter("while", Choice(WHENCE), "`down`, or `up` where a running broker can go on", default="up"),
            Parameter("seed", Whole(), "any", InScript.DRAWN),
        ),
        opening=Opening(Turn.FILE_DAMAGED),
        script=ScriptUse(),
    )


NAME = "files"
BITFLIP = _kind("bitflip", "one bit of one file flips", ("segment", "index"))
TRUNCATE = _kind("truncate-file", "one file is cut off at a random place", ("segment", "index", "checkpoint"))
REMOVE = _kind("remove-file", "one file is removed", FILES)
UNSYNCED = FaultKind(
    "power-failure-unsynced",
    NAME,
    frozenset({STOPS_PROCESS, CUTS_POWER, DAMAGES_FILES}),
    at_random=False,
    does="the same where acknowledged records need not be synced",
    seen_by=SEEN_BY,
    parameters=(Parameter("while", Choice(("down",)), "`down`", default="down"),),
    opening=Opening(Turn.LEADER_KILLED, "leader", place=2),
)


class Victim:
    """The one node of the run whose files may be hurt."""

    def __init__(self) -> None:
        self.name: str | None = None


class FileFault:
    """One way of damaging a file. victim: shared by all of a run."""

    def __init__(self, kind: FaultKind, how: str, files: tuple[str, ...], victim: Victim) -> None:
        """how: `bitflip`, `truncate` or `remove`, for `file_damage.PROGRAM`. files: what a draw chooses from, each as
        likely as it is often in it.
        """
        self.kind = kind
        self._how = how
        self._files = files
        self._victim = victim
        self._kill = Kill()

    def probe(self, view: ClusterView) -> str | None:
        if len(view.broker_nodes) < 3:
            return f"{len(view.broker_nodes)} brokers: with fewer than 3, one damaged replica is no minority"
        if view.replication_factor() < 3:
            return f"replication factor {view.replication_factor()}: below 3, one damaged replica is no minority"
        if view.copies_acknowledged() < 2:
            return (
                "the node that is hurt may have the only copy of an acknowledged record: "
                "set min.insync.replicas to 2 or more, and acks to all"
            )
        return None

    def draw(
        self, rng: Random, view: ClusterView, target: str, wanted: Mapping[str, object] = NOTHING_WANTED
    ) -> Injection:
        """wanted: `file` (segment, oldest-segment, index, checkpoint), `while` (down, up), `seed`."""
        drawn = choose(target, rng, view)[0]
        if self._victim.name is None:
            self._victim.name = drawn
        elif drawn != self._victim.name and target == drawn:
            raise Unavailable(f"files of {self._victim.name} were damaged before: {drawn} is to keep whole ones")
        params = {
            "file": rng.choice(self._files),
            "while": rng.choice(("down", "down", "up")) if self._how != "remove" else "down",
            "seed": rng.randrange(SEED_MAX),
            **wanted,
        }
        if params["file"] not in FILES or params["while"] not in WHENCE:
            raise ValueError(f"{self.kind.name}: file is one of {', '.join(FILES)}, while is down or up; got {params}")
        return Injection(self.kind.name, (self._victim.name,), params)

    def claims(self, injection: Injection) -> frozenset[str]:
        return frozenset({"files", *(f"{what}:{name}" for name in injection.targets for what in ("process", "clock"))})

    def start(self, view: ClusterView, injection: Injection) -> Observation:
        (name,) = injection.targets
        node = view.node(name)
        texts = []
        if injection.params["while"] == "down" and node.pid(view.daemon(name)) is not None:
            killed = self._kill.start(view, injection)
            if not killed.seen:
                return killed
            texts.append(killed.text)
        done = node.run(
            [
                node.python,
                "-I",
                "-S",
                "-c",
                PROGRAM,
                view.data_folder(name),
                view.topic(),
                self._how,
                str(injection.params["file"]),
                str(injection.params["seed"]),
            ]
        )
        damage = json.loads(done.stdout)
        if damage["file"] is None:
            return Observation(False, "; ".join([*texts, f"{name}: {damage['why']}"]))
        where = f" at {damage['position']} of {damage['size']} bytes" if "position" in damage else ""
        text = "; ".join([*texts, f"{name}: {self._how} {damage['file']}{where}"])
        return Observation(bool(damage["seen"]), text, str(damage["file"]))

    def stop(self, view: ClusterView, injection: Injection) -> Observation:
        """Start a broker that was killed for it. The damage stays: restoring is the system's part."""
        if injection.params["while"] == "down":
            return self._kill.stop(view, injection)
        (name,) = injection.targets
        state = process_state(view, name)
        if state is None:
            return Observation(False, f"{name}: no process: the broker has ended")
        return Observation(True, f"{name}: the broker went on (state {state})")


class UnsyncedPowerFailure(PowerFailure):
    """A power failure that may cost what was acknowledged, as damaged files may. victim: shared by all of a run."""

    def __init__(self, victim: Victim) -> None:
        super().__init__(UNSYNCED)
        self._victim = victim

    def draw(
        self, rng: Random, view: ClusterView, target: str, wanted: Mapping[str, object] = NOTHING_WANTED
    ) -> Injection:
        """One node alone is the one of all such faults. Several at once may lose what they all held: whoever names such
        a target wants to see it.
        """
        drawn = super().draw(rng, view, target, {"while": "down", **wanted})
        if len(drawn.targets) > 1:
            return drawn
        if self._victim.name is None:
            self._victim.name = drawn.targets[0]
        elif drawn.targets[0] != self._victim.name and target == drawn.targets[0]:
            raise Unavailable(f"files of {self._victim.name} were damaged before: {target} is to keep whole ones")
        return replace(drawn, targets=(self._victim.name,))


def file_faults(victim: Victim) -> list[FileFault]:
    """Those that change single files."""
    return [
        FileFault(BITFLIP, "bitflip", ("segment", "segment", "index"), victim),
        FileFault(TRUNCATE, "truncate", ("segment", "segment", "index", "checkpoint"), victim),
        FileFault(REMOVE, "remove", ("segment", "oldest-segment", "index", "checkpoint"), victim),
    ]


def of_one_run() -> list[FileFault | UnsyncedPowerFailure]:
    """All of the family; they share their victim."""
    victim = Victim()
    return [*file_faults(victim), UnsyncedPowerFailure(victim)]


FAMILY = Family(NAME, of_one_run)
