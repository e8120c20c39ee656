"""What is up while a plan is carried out: a cluster of each system, replaced when it is broken.

Decides when a cluster is started and ended. Must not know what is measured on it.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.bench import Bench, Tools
from benchmarks.process import BenchmarkFailed
from benchmarks.systems import Cluster, Kind

MENDS = 5
"""A system that breaks more often is not measured on."""
_numbers = itertools.count(1)


class Systems:
    """Without `start` there are no clusters, for rows that bring their own."""

    def __init__(
        self,
        kinds: Sequence[Kind],
        tools: Tools,
        folder: Path,
        say: Callable[[str], None],
        make: Callable[[Kind, Path], Cluster] = Cluster,
    ) -> None:
        self._tools = tools
        self._folder = folder
        self._say = say
        self._make = make
        self._clusters: dict[str, Cluster] = {}
        self._mends = 0
        self._benches = {kind.name: Bench(kind, tools) for kind in kinds}

    def start(self) -> None:
        """A cluster of each system. Raises BenchmarkFailed; `close` ends what had begun."""
        for name in self._benches:
            self._start(name)

    @property
    def benches(self) -> Mapping[str, Bench]:
        return self._benches

    def mend(self, system: str) -> bool:
        """Whether the system's cluster was broken: then another one is up. Raises BenchmarkFailed."""
        cluster = self._clusters.get(system)
        why = None if cluster is None else cluster.why_broken()
        if cluster is None or why is None:
            return False
        self._mends += 1
        if self._mends > MENDS:
            raise BenchmarkFailed(f"{self._mends} clusters broke, the last: {why}")
        self._say(f"{system}: broken ({why}); a new cluster")
        self._end(system)
        self._start(system)
        return True

    def close(self) -> None:
        """End everything; idempotent."""
        for name in list(self._clusters):
            self._end(name)

    def _start(self, name: str) -> None:
        kind = self._benches[name].kind
        cluster = self._make(kind, self._folder / f"{name}-{next(_numbers)}")
        self._clusters[name] = cluster
        self._say(f"{name}: serving after {cluster.start():.2f} s")
        self._benches[name] = Bench(kind, self._tools, cluster)

    def _end(self, name: str) -> None:
        cluster = self._clusters.pop(name)
        cluster.close()
        shutil.rmtree(cluster.folder, ignore_errors=True)
