"""One broker of the simulation: the real control and data planes, started and killed as processes are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker.config.settings import Settings
from broker.core.controller.cluster_state import BrokerEndpoint
from broker.core.controller.suspicion import LinkEvent
from broker.model.log_errors import CorruptLog, LogDirFailed
from broker.runtime.event_log import EventLog
from broker.runtime.metadata.cache import Address
from broker.runtime.replica_manager import ReplicaManager
from broker.runtime.requests.context import RequestContext
from broker.server.control_plane import ControlPlane
from broker.server.data_plane import DataPlane
from tests.support.simulation.fibers import FiberLock, Process, sleep_ms
from tests.support.simulation.link import SimulatedLink
from tests.support.simulation.loop import SimulatedLoop
from tests.support.simulation.network import Connection
from tests.support.simulation.peer import ServerEnd, SimulatedPeer
from tests.support.simulation.zk_client import SimulatedZkClient

if TYPE_CHECKING:
    from tests.support.simulation.cluster import Cluster

LISTENER = "PLAINTEXT"
PORT = 9092
_LOGS_MS = (1.0, 300.0)
_SAID_MS = 0.1


class ObservedEvents(EventLog):
    """The event log without a file: each event goes to a listener as it is."""

    __slots__ = ("_listener",)

    def __init__(self, broker_id: int, listener: Callable[[str, dict[str, Any]], None]) -> None:
        super().__init__("/dev/null", broker_id, f"{broker_id:02x}", with_ids=_EveryTopic())
        self._with_ids = _EveryTopic()
        self._listener = listener

    def emit(self, event: str, **fields: object) -> None:
        self._listener(event, fields)


class _EveryTopic(frozenset[str]):
    """Lines name the topic's id, whichever it is."""

    def __contains__(self, topic: object) -> bool:
        return True


class BrokerProcess(Process):
    """One life of a broker, from its start to its death. Satisfies `network.Host`."""

    def __init__(self, cluster: Cluster, broker_id: int, folder: Path, settings: dict[str, str]) -> None:
        super().__init__(cluster.scheduler, f"b{broker_id}")
        self.broker_id = broker_id
        self.loop = SimulatedLoop(self)
        self.control: ControlPlane | None = None
        self.data: DataPlane | None = None
        self.serving = False
        self.kazoos: list[SimulatedZkClient] = []
        self.connections: list[SimulatedPeer | SimulatedLink] = []
        self._cluster = cluster
        self._folder = folder
        self._settings = settings
        self._ends: dict[int, ServerEnd] = {}
        self._events: ObservedEvents | None = None
        self.start("main", self._start)

    @property
    def manager(self) -> ReplicaManager | None:
        return None if self.data is None else self.data.manager

    @property
    def controls(self) -> bool:
        """Whether it takes itself for the controller."""
        return self.serving and self.control is not None and self.control.controller.active

    # As broker_server.Broker does

    def _start(self) -> None:
        settings = Settings.parse(self._settings)
        control = self.control = ControlPlane(settings, self.broker_id, str(self._folder))
        control.prepare()
        data = self.data = DataPlane(
            settings,
            self.loop,  # type: ignore[arg-type]
            control.all_topic_configs(),
            self._on_log_failure,
            control.cluster_id,
        )
        self._events = ObservedEvents(
            self.broker_id, lambda event, fields: self._cluster.observer.on_event(self, event, fields)
        )
        control.build(
            self.loop,
            lambda host, port, client_id: self._cluster.connect(self.loop, host, client_id),
            self._events.emit_now,
            (BrokerEndpoint(LISTENER, self.name, PORT, LISTENER),),
            self._on_registered,
            lambda: self._manager.resign_all(),
            lambda passed: self._manager.replicas.set_session_deadline_passed(passed),
            self._on_unfit,
            self._open_link,
        )
        control.registration._pause = lambda seconds: sleep_ms(seconds * 1000)
        control._registrar._lock = FiberLock()  # type: ignore[assignment]
        data.build(control, None, self._events, f"{self.broker_id}")  # type: ignore[arg-type]
        self.loop.add_before_send(lambda: self._cluster.observer.on_turn(self))
        data.start()
        self._cluster.network.hosts[self.name] = self
        epoch = control.register({LISTENER: PORT})
        data.store.registered(epoch, control.epoch_before)
        self.serving = True
        self.scheduler.note(f"{self.name}: serves, broker epoch {epoch}")
        self.loop.run()

    def _open_link(self, address: Address, on_event: Callable[[LinkEvent], None]) -> SimulatedLink:
        link = SimulatedLink(self.loop, address.host, on_event, self._cluster.network)
        self.connections.append(link)
        return link

    @property
    def _manager(self) -> ReplicaManager:
        assert self.data is not None
        assert self.data.manager is not None
        return self.data.manager

    def _on_registered(self, broker_epoch: int) -> None:
        assert self.data is not None
        self.data.store.registered(broker_epoch)
        self.scheduler.note(f"{self.name}: registered anew, broker epoch {broker_epoch}")

    def _on_log_failure(self, failure: LogDirFailed | CorruptLog) -> None:
        self.scheduler.failures.append(f"{self.name}: log failure: {failure!r}")

    def _on_unfit(self, error: Exception) -> None:
        self.scheduler.failures.append(f"{self.name}: must stop: {error!r}")

    # Its end

    def stop(self, then: Callable[[], None]) -> None:
        """Leaderships moved away, logs closed with their marks, the session ended; then a call."""
        self.scheduler.note(f"{self.name}: stops")
        control = self.control
        assert control is not None

        def farewell() -> None:
            self.serving = False
            self.loop.stop()
            control.resign()
            self.call(self.scheduler.rng.uniform(*_LOGS_MS), lambda: self._close(then))

        self.loop.call_soon(lambda: control.controlled_shutdown(farewell))

    def _close(self, then: Callable[[], None]) -> None:
        assert self.control is not None
        assert self.data is not None
        self._cluster.network.hosts[self.name] = None
        self.data.close(clean=True)
        self.control.close()
        # The session's end has to be on its way before the process ends.
        self.call(_SAID_MS, then)

    def die(self) -> None:
        """kill -9: nothing is left but what was written."""
        self.scheduler.note(f"{self.name}: dies")
        self.kill()
        self.serving = False
        self._cluster.network.hosts[self.name] = None
        for end in self._ends.values():
            end.open = False
            end.connection.reset("closed: by its end")
        for connection in self.connections:
            connection.abandon()
        for client in self.kazoos:
            client.kazoo.abandon()
        if self.data is not None:
            if self.data.manager is not None:
                self.data.manager.replicas.stopped = True
            self.data.store.close(clean=False)
        if self._events is not None:
            self._events.close()
        self._ends.clear()
        self.connections.clear()

    # What its kernel does

    def accept(self, connection: Connection) -> None:
        self._ends[id(connection)] = ServerEnd(self.loop, connection)

    def receive(self, connection: Connection, frame: bytes) -> None:
        end = self._ends.get(id(connection))
        if end is not None:
            self.loop.arrive(lambda: self._dispatch(end, frame))

    def disconnected(self, connection: Connection) -> None:
        end = self._ends.pop(id(connection), None)
        if end is not None:
            end.open = False

    def _dispatch(self, end: ServerEnd, frame: bytes) -> None:
        assert self.data is not None
        if end.open:
            context = RequestContext(LISTENER, end.connection.address)
            self.data._dispatcher.dispatch(memoryview(bytearray(frame)), end.slot(), context)
