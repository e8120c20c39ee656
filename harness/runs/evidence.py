"""What the nodes of a run hold, copied into the run's folder and noted in the history.

Decides when something is copied a second time. Must not know where a system keeps its files. Invariant: a node's
evidence is copied once, without what the rotation changes later; logs written since are copied apart.
"""

from __future__ import annotations

from harness.runs.recording import Recording
from harness.systems.base import System


class EvidenceCollector:
    """The evidence of one system. Not thread-safe."""

    def __init__(self, system: System, recording: Recording) -> None:
        self._system = system
        self._recording = recording
        self._collected = False

    def collect(self) -> None:
        """Copy evidence, once; what could not be copied is noted."""
        if self._collected:
            return
        self._collected = True
        self.note_crashes()
        self._recording.show("evidence")
        for node, missing in self._system.collect(self._recording.store.evidence):
            self._recording.history.harness("evidence", node=node, error=missing)

    def collect_logs(self) -> None:
        """Copy what the brokers logged since, while they led in turn and were stopped for it."""
        for node, missing in self._system.collect_logs(self._recording.store.evidence):
            self._recording.history.harness("logs", node=node, error=missing)

    def note_crashes(self) -> None:
        """Note daemons that ended by themselves after the main phase; the nemesis notes those of that phase."""
        for node, log_tail in self._system.crashed():
            self._recording.history.harness(
                "crash", error="ended though no fault was to end it", node=node, log_tail=log_tail
            )

    def rescue(self) -> None:
        """For a run that broke off: copy whatever was not copied yet, before the nodes are gone."""
        if self._collected:
            self.collect_logs()
        else:
            self.collect()
