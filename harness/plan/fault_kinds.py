"""What a run file, a history and a report say of a kind of fault: its name, its family, and what it does to a cluster.

The kinds themselves are not listed here: whoever reads a run file hands in those that there are (`nemesis.catalogue`).
Must not know how a fault is carried out. Source of the effects: docs/history-format.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

STOPS_PROCESS = "stops-process"
"""While it lasts, the daemon of each target is gone or does not run."""
CUTS_LINKS = "cuts-links"
"""While it lasts, packets between nodes are lost; `params.grudge` says on which links."""
NAMES_NO_VICTIM = "names-no-victim"
"""Of a cut: `targets` are some of the nodes, and the cut affects the other nodes just as much."""
SKEWS_CLOCK = "skews-clock"
"""While it lasts, the wall clock of each target is wrong: by `params.offset_s`, `delta_s` or `rate`."""
DAMAGES_FILES = "damages-files"
"""Files of each target's replicas were changed; nothing takes that back."""
CUTS_POWER = "cuts-power"
"""What each target's daemon had not synced is gone; its data has to be on a disk that can lose power."""
EFFECTS = frozenset({STOPS_PROCESS, CUTS_LINKS, NAMES_NO_VICTIM, SKEWS_CLOCK, DAMAGES_FILES, CUTS_POWER})


@dataclass(frozen=True, slots=True)
class KnownFault:
    """A kind of fault, as far as run files, histories and results name it.

    name: as run files and histories have it, unique among all kinds. family: what it belongs to, such as `process`.
    effects: some of `EFFECTS`. at_random: in a random mix also where the run file names no kinds.
    """

    name: str
    family: str
    effects: frozenset[str] = frozenset()
    at_random: bool = True

    def __post_init__(self) -> None:
        """Raises ValueError for a name that a run file cannot hold, or an effect that the checkers do not know."""
        for text in (self.name, self.family):
            if not text or not text.replace("-", "").isalnum() or text != text.lower() or not text.isascii():
                raise ValueError(f"fault {self.name!r}, family {self.family!r}: names are of a-z, 0-9 and -")
        unknown = sorted(self.effects - EFFECTS)
        if unknown:
            raise ValueError(f"fault {self.name}: {unknown[0]!r} is no effect; allowed: {', '.join(sorted(EFFECTS))}")


NO_FAULTS: Mapping[str, KnownFault] = {}
"""For a reader that knows no faults: it refuses a run file with [faults]."""
