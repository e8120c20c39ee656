"""One broker's life: start in order, run, shut down in order.

Startup: ZooKeeper and identity, logs, listeners bound, registered, the loop. Shutdown on SIGTERM or SIGINT: leaderships
moved away (controlled shutdown), logs closed with the mark of a clean shutdown, ZooKeeper session ended. A second
signal, or a failure that leaves nothing to serve, ends the broker without the mark; while the logs are closed a signal
that comes _SAME_SIGNAL_S or more after the first ends the process.
A start that fails, or that a signal ends, leaves the mark as it was.
Source: kafka.server.KafkaServer.startup, shutdown.
"""

from __future__ import annotations

import gc
import logging
import os
import secrets
import signal
import socket
import time
from dataclasses import replace
from types import FrameType

from broker import __version__
from broker.config.settings import Settings
from broker.core.controller.cluster_state import BrokerEndpoint
from broker.log.files import checkpoints
from broker.model.log_errors import CorruptLog, LogDirFailed
from broker.net.link import Link
from broker.net.loop import EpollLoop
from broker.net.peer import BrokerPeer
from broker.net.resolver import Resolver
from broker.runtime.event_log import EventLog
from broker.runtime.replica_manager import ReplicaManager
from broker.server.control_plane import ControlPlane
from broker.server.data_plane import DataPlane

_log = logging.getLogger("broker")

_INCARNATION_BYTES = 8
_COLLECT_AFTER_ALLOCATIONS = 20_000
_HAND_OVER_LOOK_MS = 5.0
_HAND_OVER_MAX_MS = 300.0
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SAME_SIGNAL_S = 1.0


class _StopRequested(BaseException):
    """A signal during the start; nothing is served yet, so it ends at once wherever it is."""


class Broker:
    """A broker process. `run` returns its exit code."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loop = EpollLoop()
        self._resolver = Resolver(self._loop)
        self._incarnation = secrets.token_hex(_INCARNATION_BYTES)
        self._event_log: EventLog | None = None
        self._serving = False
        self._shutting_down = False
        self._first_signal_s: float | None = None
        """When the first signal came."""
        self._closing = False
        self._halted = False
        self._clean = True
        self._exit_code = 0
        self._registrations_logged = 0
        """How many of the control plane's epochs the event log has."""
        self._control: ControlPlane | None = None
        self._data: DataPlane | None = None

    def run(self) -> int:
        """Start, serve until a signal, shut down. Raises what makes a start impossible, with everything undone."""
        try:
            self._start()
            self._serving = True
            if not self._halted:
                _relieve_collector()
                self._loop.run()
        except _StopRequested as signalled:
            self._clean = False
            _log.info("%s before the start was done: stopping", signalled)
        except BaseException:
            self._clean = False
            raise
        finally:
            self._close()
        return self._exit_code

    # -- start -----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        settings = self._settings
        if settings.unknown:
            _log.warning("settings that this broker does not know: %s", ", ".join(settings.unknown))
        for name in _STOP_SIGNALS:
            signal.signal(name, self._on_signal)
        control = self._control = ControlPlane(settings, _broker_id(settings), settings.log_dirs[0])
        control.prepare()
        settings = self._settings = replace(settings, broker_id=control.broker_id)
        data = self._data = DataPlane(
            settings, self._loop, control.all_topic_configs(), self._on_log_failure, control.cluster_id
        )
        event_log = self._event_log = _event_log(settings, self._incarnation)
        if event_log is not None:
            event_log.emit_now(
                "start",
                pid=os.getpid(),
                version=__version__,
                truncation=settings.replica_truncation,
                min_isr=int(settings.topic_defaults["min.insync.replicas"]),
                unclean=settings.unclean_leader_election_enable,
            )
        control.build(
            self._loop,
            lambda host, port, client_id: BrokerPeer(self._loop, host, port, client_id, resolver=self._resolver),
            None if event_log is None else event_log.emit_now,
            _advertised(settings),
            self._on_registered,
            self._on_fenced,
            self._on_suspect,
            self._on_unfit,
            lambda address, on_event: Link(self._loop, address.host, address.port, on_event, self._resolver),
        )
        data.build(control, self._resolver, event_log, self._incarnation)
        data.start()
        data.listen()
        names = (endpoint.name for endpoint in settings.listeners)
        broker_epoch = control.register(dict(zip(names, data.ports, strict=True)))
        data.store.registered(broker_epoch, control.epoch_before)
        self._log_registrations(control)
        _log.info("broker %d is up on %s", settings.broker_id, ", ".join(map(str, data.ports)))

    # -- what happens to it ----------------------------------------------------------------------------------------

    def _log_registrations(self, control: ControlPlane) -> None:
        """All that are not in the event log yet: one may have ended unseen, or been withdrawn by a shutdown."""
        if self._event_log is not None:
            logged, self._registrations_logged = self._registrations_logged, len(control.epochs)
            for broker_epoch in control.epochs[logged : self._registrations_logged]:
                self._event_log.emit_now("registered", be=broker_epoch)

    def _on_registered(self, broker_epoch: int) -> None:
        assert self._data is not None
        assert self._control is not None
        self._data.store.registered(broker_epoch)
        self._log_registrations(self._control)

    def _on_fenced(self) -> None:
        assert self._data is not None
        assert self._data.manager is not None
        self._data.manager.resign_all()

    def _on_suspect(self, passed: bool) -> None:
        assert self._data is not None
        assert self._data.manager is not None
        self._data.manager.replicas.set_session_deadline_passed(passed)

    def _on_unfit(self, error: Exception) -> None:
        _log.error("stopping: %s", error)
        self._halt()

    def _on_log_failure(self, failure: LogDirFailed | CorruptLog) -> None:
        _log.error("log failure: %s", failure)
        data = self._data
        if data is None:
            return
        if self._control is not None:
            self._control.report_log_failure()
        try:
            data.store.check_any_dir()
        except LogDirFailed as all_failed:
            _log.error("stopping: every log dir is offline: %s", all_failed)
            self._halt()

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self._first_signal_s is None:
            self._first_signal_s = time.monotonic()
        if self._closing:
            self._on_signal_while_closing(number, time.monotonic() - self._first_signal_s)
            return
        if not self._serving:
            # The start may be waiting for ZooKeeper or another broker's session. A second signal ends the process.
            signal.signal(number, signal.SIG_DFL)
            if not self._shutting_down:
                self._shutting_down = True
                raise _StopRequested(signal.Signals(number).name)
            return
        self._loop.call_soon_threadsafe(lambda: self._on_shutdown_signal(signal.Signals(number).name))

    def _on_signal_while_closing(self, number: int, since_first_s: float) -> None:
        """A launcher may send one signal twice, to the group and to the process; a later one is meant as a second."""
        if since_first_s >= _SAME_SIGNAL_S:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            os._exit(128 + number)  # the first process of a container is not ended by a signal

    # -- shutdown ------------------------------------------------------------------------------------------------------

    def _on_shutdown_signal(self, name: str) -> None:
        if self._shutting_down:
            _log.warning("%s again: stopping at once", name)
            self._halt()
            return
        self._shutting_down = True
        _log.info("%s: stopping", name)
        assert self._control is not None
        assert self._data is not None
        assert self._data.manager is not None
        manager = self._data.manager
        had_clients = self._settings.controlled_shutdown_enable and manager.replicas.leads_replicated()
        self._control.controlled_shutdown(lambda: self._take_leave(manager, had_clients))

    def _take_leave(self, manager: ReplicaManager, had_clients: bool) -> None:
        """Keep serving until the leaderships that were moved away are given up here, and a little longer for their
        clients.

        A client that gets NOT_LEADER_OR_FOLLOWER or new metadata goes to the new leader at once; a client whose
        connection just ends has to find it first.
        """
        began = self._loop.now_ms()

        def look() -> None:
            if not had_clients or self._halted:
                self._loop.stop()
            elif manager.replicas.leads_replicated() and self._loop.now_ms() - began < _HAND_OVER_MAX_MS:
                self._loop.call_later(_HAND_OVER_LOOK_MS, look)
            else:
                self._loop.call_later(self._settings.controlled_shutdown_farewell_ms, self._loop.stop)

        look()

    def _halt(self) -> None:
        self._halted = True
        self._clean = False
        self._exit_code = 1
        self._loop.stop()

    def _close(self) -> None:
        """The registration is removed last: until the logs are closed no other broker may take this one for stopped.
        The controllership is given up first: another broker takes it on while the logs are closed. Signals no longer
        reach the loop: one that comes _SAME_SIGNAL_S after the first ends the process at once, whatever a close waits
        for.
        """
        self._closing = True
        control, data = self._control, self._data
        try:
            if control is not None:
                control.resign()
        finally:
            self._close_rest(control, data)

    def _close_rest(self, control: ControlPlane | None, data: DataPlane | None) -> None:
        try:
            if data is not None:
                if self._serving:
                    data.close(self._clean)
                else:
                    data.close_unused()
        finally:
            try:
                if control is not None:
                    control.close()
            finally:
                if self._event_log is not None:
                    if control is not None:
                        self._log_registrations(control)
                    if self._clean:
                        self._event_log.emit("stop")
                    self._event_log.close()
                self._resolver.close()
                self._loop.close()


def _relieve_collector() -> None:
    """Tune the garbage collector: objects of the start stay for good, and requests leave no cycles behind."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER_ALLOCATIONS, 20, 20)


def _broker_id(settings: Settings) -> int:
    """The configured id, else the one that meta.properties keeps, else −1."""
    if settings.broker_id >= 0:
        return settings.broker_id
    for folder in settings.log_dirs:
        path = os.path.join(folder, checkpoints.META_PROPERTIES)
        try:
            kept = checkpoints.read_properties(path).get("broker.id")
        except OSError as error:
            # Whether the broker goes on without this dir is decided where its logs are opened.
            _log.warning("%s cannot be read: %s", path, error)
            continue
        if kept is not None:
            if not kept.isdecimal():
                raise ValueError(f"{path}: broker.id={kept!r} is not a number")
            return int(kept)
    return -1


def _event_log(settings: Settings, incarnation: str) -> EventLog | None:
    """None where none is wanted. Raises OSError."""
    path = settings.lab_event_log
    if path is None:
        return None
    try:
        return EventLog(path, settings.broker_id, incarnation, with_ids=settings.lab_event_log_topic_ids)
    except OSError as error:
        raise OSError(
            f"lab.event.log={path!r} cannot be opened: {error.strerror}: give a file that this broker may read and "
            "write, there already or to be made in a folder that is there"
        ) from None


def _advertised(settings: Settings) -> tuple[BrokerEndpoint, ...]:
    """The addresses for clients and brokers; a listener on all addresses is advertised by this host's name."""
    return tuple(
        BrokerEndpoint(endpoint.name, endpoint.host or socket.getfqdn(), endpoint.port, endpoint.name)
        for endpoint in settings.advertised_listeners
    )
