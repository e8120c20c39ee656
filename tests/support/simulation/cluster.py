"""Brokers, ZooKeeper and clients of one simulation, and what of Python's clocks and chance it takes over meanwhile."""

from __future__ import annotations

import logging
import random
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from broker.model import backoff
from broker.runtime.controller import controller
from broker.server import control_plane, data_plane
from broker.zk import registration
from broker.zk.session_file import RecordedSession
from tests.support.simulation.broker import LISTENER, PORT, BrokerProcess
from tests.support.simulation.clients import Administrator, Consumer, IdempotentProducer, Producer
from tests.support.simulation.disk import SyncedFiles
from tests.support.simulation.fibers import Process, running, sleep_ms, take_part, takes_part
from tests.support.simulation.loop import SimulatedLoop
from tests.support.simulation.network import Network
from tests.support.simulation.observer import Observer
from tests.support.simulation.peer import SimulatedPeer
from tests.support.simulation.scheduler import Scheduler
from tests.support.simulation.threads import FileWork, FlushWork, SimulatedEventManager, SimulatedWorker
from tests.support.simulation.zk_client import HOST, SimulatedZkClient
from tests.support.simulation.zookeeper import ZooKeeper

_EPOCH_NS: Final = 1_700_000_000_000_000_000
_SETTINGS: Final = {
    "zookeeper.connect": f"{HOST}:2181",
    "zookeeper.session.timeout.ms": "3000",
    "zookeeper.connection.timeout.ms": "20000",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.backoff.ms": "200",
    "replica.socket.timeout.ms": "2000",
    "controller.socket.timeout.ms": "2000",
    "replica.high.watermark.checkpoint.interval.ms": "1500",
    "log.flush.offset.checkpoint.interval.ms": "2500",
    "log.segment.bytes": "1000",
    "log.segment.delete.delay.ms": "500",
    "log.cleaner.enable": "false",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
}


class Cluster:
    """Made inside of `simulated`."""

    def __init__(self, scheduler: Scheduler, folder: Path, brokers: int, settings: dict[str, str]) -> None:
        self.scheduler = scheduler
        self.folder = folder
        self.ids = list(range(1, brokers + 1))
        self.network = Network(scheduler)
        self.network.hosts.update({f"b{id_}": None for id_ in self.ids})
        self.zookeeper = ZooKeeper(scheduler)
        self.observer = Observer(scheduler)
        self.zookeeper.written = self.observer.on_written
        self.disk = SyncedFiles()
        self.brokers: dict[int, BrokerProcess | None] = dict.fromkeys(self.ids)
        self.producers = [Producer(self, "p0"), Producer(self, "p1"), IdempotentProducer(self, "i0")]
        self.consumers: dict[tuple[str, int], Consumer] = {}
        self.admin = Administrator(self, "admin")
        self._start_after: dict[int, BrokerProcess] = {}
        self._settings = {**_SETTINGS, **settings}

    def start(self, id_: int) -> None:
        """A broker's process, where there is none; where there is one that stops, after it."""
        there = self.brokers[id_]
        if there is not None:
            self._start_after[id_] = there
        else:
            self.network.silent.discard(f"b{id_}")
            folder = self.folder / str(id_)
            folder.mkdir(exist_ok=True)
            address = f"{LISTENER}://b{id_}:{PORT}"
            settings = {"broker.id": str(id_), "log.dirs": str(folder), "listeners": address, **self._settings}
            self.brokers[id_] = BrokerProcess(self, id_, folder, settings)

    def kill(self, id_: int) -> None:
        process = self.brokers[id_]
        if process is not None:
            self.brokers[id_] = None
            process.die()

    def stop(self, id_: int) -> None:
        """In good order: the broker says when it is done, and is not there any more."""
        process = self.brokers[id_]
        if process is not None and process.serving:

            def stopped() -> None:
                if self.brokers[id_] is process:
                    self.kill(id_)
                    if self._start_after.get(id_) is process:
                        self.start(id_)

            process.stop(stopped)

    def cut_power(self, id_: int) -> None:
        """Kill, and lose what was not synced; the host is silent until the broker's next start."""
        self.network.silent.add(f"b{id_}")
        if self._settings.get("flush.policy") != "group-commit":
            self.observer.doubtful.add(id_)
        self.kill(id_)
        cut = self.disk.cut_power(self.folder / str(id_), self.scheduler.rng)
        self.scheduler.note(f"b{id_}: lost power, {cut}")

    def consume(self, topic: str, partition: int) -> None:
        """From now on somebody reads this partition."""
        if (topic, partition) not in self.consumers:
            self.consumers[topic, partition] = Consumer(self, topic, partition)

    def connect(self, loop: SimulatedLoop, host: str, client_id: str) -> SimulatedPeer:
        peer = SimulatedPeer(loop, host, client_id, self.network)
        if isinstance(loop.process, BrokerProcess):
            loop.process.connections.append(peer)
        return peer

    def run(self, ms: float) -> None:
        """Let time pass. Raises what a broker did wrong meanwhile."""
        self.scheduler.run(ms, lambda: bool(self.scheduler.failures))
        assert not self.scheduler.failures, "\n".join(self.scheduler.failures)

    def close(self) -> None:
        """End all that was begun."""
        for id_ in self.ids:
            self.kill(id_)


class _Errors(logging.Handler):
    """Errors that the broker logs with a traceback are none that anybody expects."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(logging.ERROR)
        self._scheduler = scheduler

    def emit(self, record: logging.LogRecord) -> None:
        if takes_part() and record.exc_info and record.exc_info[1] is not None:
            lines = "".join(traceback.format_exception(record.exc_info[1]))
            self._scheduler.failures.append(f"{record.getMessage()}\n{lines}")


@contextmanager
def simulated(seed: int, folder: Path, brokers: int = 3, settings: dict[str, str] | None = None) -> Iterator[Cluster]:
    """A cluster whose brokers are not started yet."""
    scheduler = Scheduler(seed)
    take_part(True)
    with pytest.MonkeyPatch.context() as patch:
        _take_over(patch, scheduler)
        cluster = Cluster(scheduler, folder, brokers, settings or {})
        _plug_in(patch, cluster)
        errors = _Errors(scheduler)
        logger = logging.getLogger("broker")
        logger.addHandler(errors)
        level = logger.level
        logger.setLevel(logging.ERROR)
        try:
            yield cluster
        finally:
            logger.setLevel(level)
            logger.removeHandler(errors)
            cluster.close()
            take_part(False)


def _take_over(patch: pytest.MonkeyPatch, scheduler: Scheduler) -> None:
    """Clocks and chance."""
    rng = random.Random(scheduler.rng.random())

    def replace(module: Any, name: str, call: Callable[..., Any]) -> None:
        real = getattr(module, name)
        patch.setattr(module, name, lambda *given: (call if takes_part() else real)(*given))

    replace(time, "monotonic", lambda: scheduler.now_ms / 1e3)
    replace(time, "monotonic_ns", lambda: int(scheduler.now_ms * 1e6))
    replace(time, "time_ns", lambda: _EPOCH_NS + int(scheduler.now_ms * 1e6))
    replace(time, "sleep", lambda seconds: sleep_ms(seconds * 1e3))
    replace(uuid, "uuid4", lambda: uuid.UUID(int=rng.getrandbits(128), version=4))
    made = SimpleNamespace(Random=lambda seed=None: random.Random(rng.getrandbits(64)), **_functions(rng))
    for module in (backoff, control_plane):
        patch.setattr(module, "random", made)
    random.seed(scheduler.rng.random())


def _functions(rng: random.Random) -> dict[str, Any]:
    return {"uniform": rng.uniform, "randrange": rng.randrange}


def _plug_in(patch: pytest.MonkeyPatch, cluster: Cluster) -> None:
    """What stands in for sockets, threads and ZooKeeper; each belongs to the process that makes it."""

    def owner() -> Process:
        return running().process

    def client(*options: Any) -> SimulatedZkClient:
        process = owner()
        assert isinstance(process, BrokerProcess)
        made = SimulatedZkClient(process, cluster.network, cluster.zookeeper, *options)
        process.kazoos.append(made)
        return made

    def end_session(_: str, session: RecordedSession) -> None:
        sleep_ms(cluster.network.delay_ms(("", HOST)))
        cluster.zookeeper.end_session(session.session_id)

    cluster.disk.install(patch)
    patch.setattr(control_plane, "ZkClient", client)
    patch.setattr(control_plane, "ZkWorker", lambda: SimulatedWorker(owner()))
    patch.setattr(controller, "ControllerEventManager", lambda *calls: SimulatedEventManager(owner(), *calls))
    patch.setattr(registration, "end_session", end_session)
    patch.setattr(data_plane, "FileWorker", FileWork)
    patch.setattr(data_plane, "DeletionWorker", FileWork)
    patch.setattr(data_plane, "FlushWorkers", lambda loop, dirs: FlushWork(loop))
    patch.setattr(
        data_plane, "BrokerPeer", lambda loop, host, port, client_id, **_: cluster.connect(loop, host, client_id)
    )
