"""One kill -9, and how long each client went without success. The killed broker is back in all ISRs afterwards.

Each client is a new process: what it learned in an earlier kill, such as a pause before it connects again, is not what
an application brings along. It has run for a while before the kill, and has had successes for the last seconds:
franz-go asks for metadata at its start and five seconds later, and for five seconds after that not again.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.applications.clients import Client
from benchmarks.applications.gaps import Said, is_steady, longest_silence_ns, parse
from benchmarks.applications.roles import WORK, Role, Scene, scene, still_holds
from benchmarks.process import BenchmarkFailed, Daemon, wait_for
from benchmarks.systems import BROKERS, Cluster
from benchmarks.topics import await_all_full, create_topic, delete_topic, elect_preferred

LIMIT_S = 60.0
"""A client that has no success for so long is given up; the gap is said to be that long."""
_START_S = 60.0
_LOOK_S = 3.0
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Gap:
    """gap_ms: the longest silence from the kill on. load: the machine's, over a minute, at the kill.

    failures: errors that reached the application from the kill on. void: why the gap is none, else None.
    """

    system: str
    client: str
    role: Role
    gap_ms: float
    load: float
    failures: tuple[str, ...] = ()
    void: str | None = None


class _Application:
    """A client at work."""

    def __init__(self, client: Client, cluster: Cluster, topic: str, work: str, id_: str) -> None:
        self.name = client.name
        self.topic = topic
        argv = [*client.argv, work, cluster.bootstrap, topic, id_]
        self.daemon = Daemon(f"client-{topic}", argv, cluster.folder, client.environment)

    def said(self) -> Said:
        return parse(self.daemon.output.read_text(errors="replace"))

    def is_steady(self) -> bool:
        """True as well once it has ended: it is not waited for."""
        return not self.daemon.alive or is_steady(self.said().successes, time.monotonic_ns())


def kill(cluster: Cluster, role: Role, clients: Sequence[Client], warm_s: float) -> list[Gap]:
    """Kill the broker that has the role, under clients that depend on it; one gap for each. Raises BenchmarkFailed when
    the cluster does not come to rest before or afterwards.

    warm_s: how old each client is when the broker is killed, at least.
    """
    await_all_full(cluster)
    elect_preferred(cluster)
    place = scene(cluster, role)
    number = next(_numbers)
    topics = [f"app-{number}-{client.name}" for client in clients]
    for topic in topics:
        create_topic(cluster, topic, 1, place.leader)
    applications = [
        _Application(client, cluster, topic, WORK[role], place.id_for(topic))
        for client, topic in zip(clients, topics, strict=True)
    ]
    try:
        for application in applications:
            application.daemon.start()
        time.sleep(warm_s)
        _await(applications, _START_S)
        gaps = _kill(cluster, role, place, applications)
    finally:
        for application in applications:
            application.daemon.kill()
        if not cluster.brokers[place.victim].daemon.alive:
            cluster.brokers[place.victim].daemon.start()
        cluster.await_serving(BROKERS)
        await_all_full(cluster)
    for topic in topics:
        delete_topic(cluster, topic, await_gone=False)
    return gaps


def _await(applications: Sequence[_Application], timeout_s: float) -> bool:
    """Until all are steady, or for that long; whether they are."""
    try:
        wait_for("clients", lambda: all(application.is_steady() for application in applications), timeout_s, 0.1)
    except BenchmarkFailed:
        return False
    return True


def _kill(cluster: Cluster, role: Role, place: Scene, applications: Sequence[_Application]) -> list[Gap]:
    ready = [application.daemon.alive and application.is_steady() for application in applications]
    before = [len(application.said().failures) for application in applications]
    held = all(still_holds(cluster, role, place, application.topic) for application in applications)
    load = os.getloadavg()[0]
    killed_ns = time.monotonic_ns()
    cluster.brokers[place.victim].daemon.kill()
    time.sleep(_LOOK_S)
    _await(applications, LIMIT_S - _LOOK_S)
    looked_ns = time.monotonic_ns()
    gaps = []
    for application, was_ready, failures in zip(applications, ready, before, strict=True):
        said = application.said()
        void = None
        if not held:
            void = f"broker {place.victim} was the {role} no more when it was killed"
        elif not was_ready:
            void = f"it was not at work before the kill: {application.daemon.tail(200)!r}"
        elif not application.daemon.alive:
            void = f"its process ended: {application.daemon.tail(200)!r}"
        gap_ms = longest_silence_ns(said.successes, killed_ns, looked_ns) / 1e6
        gaps.append(Gap(cluster.name, application.name, role, gap_ms, load, said.failures[failures:], void))
    return gaps
