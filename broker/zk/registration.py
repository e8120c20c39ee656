"""A broker's ephemeral `/brokers/ids/N`, its id, and the cluster's id.

The registration's czxid is the broker epoch: one per incarnation and session. A znode left by an earlier incarnation of
this data folder is removed by ending its recorded session, never by deleting the path: between a look and a delete the
znode could have become another broker's. A znode of any other session is waited for up to the session time-out (its
owner may be dying) and then refused. Each registration writes a second znode in the same transaction, which stays: so
the next incarnation learns the broker epoch of the last one (docs/adr/0010). Blocking; runs on a worker thread.
Source: kafka.zk.KafkaZkClient.registerBroker, CheckedEphemeral; KAFKA-7165.
"""

from __future__ import annotations

import base64
import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from kazoo.client import KazooClient

from broker.core.controller.cluster_state import Broker, StoreUnavailable
from broker.model.ids import BrokerId
from broker.zk import codecs, paths
from broker.zk.client import SessionExpired, WriteRefused, ZkClient
from broker.zk.operations import Create, Node, SetData
from broker.zk.session_file import RecordedSession

_log = logging.getLogger("broker.zk")

_WAIT_SLACK = 1.5
_POLL_S = 0.05
_END_TIMEOUT_S = 5.0


class BrokerIdInUse(Exception):
    """Another live broker is registered under this broker's id; the text names both."""


class SessionRecord(Protocol):
    """Where sessions are recorded before they own anything; see `session_file`."""

    def read(self) -> list[RecordedSession]:
        """The sessions that earlier processes of this broker opened and may have left behind."""
        ...

    def write(self, sessions: list[RecordedSession]) -> None:
        """Replace the record: these sessions the next process of this broker can end."""
        ...


def prepare(client: ZkClient) -> None:
    """Make Kafka's persistent znodes where missing."""
    for path in paths.PERSISTENT:
        client.ensure_path(path)


def registered_hosts(client: ZkClient) -> set[str]:
    """Names or addresses under which the registered brokers are reached. Raises StoreUnavailable."""
    names = [name for name in client.children(paths.BROKER_IDS) or [] if name.isdecimal()]
    nodes = client.get_many([paths.broker_id(int(name)) for name in names])
    hosts: set[str] = set()
    for name in names:
        node = nodes[paths.broker_id(int(name))]
        if node is not None:
            try:
                found = codecs.decode_broker(int(name), node.data, node.czxid)
            except codecs.MalformedZnode as error:
                _log.error("a registration is ignored: %s", error)
            else:
                hosts |= {endpoint.host for endpoint in found.endpoints}
    return hosts


def cluster_id(client: ZkClient) -> str:
    """Read `/cluster/id`, or make a cluster id of 16 random bytes in Kafka's base64 form."""
    while True:
        node = client.get(paths.CLUSTER_ID)
        if node is not None and node.data:
            return codecs.decode_cluster_id(node.data)
        client.ensure_path("/cluster")
        fresh = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        try:
            client.create(paths.CLUSTER_ID, codecs.encode_cluster_id(fresh))
        except WriteRefused as refused:
            if refused.reason not in ("node-exists", "bad-version"):
                raise


def generate_broker_id(client: ZkClient, reserved_max_id: int = 1000) -> BrokerId:
    """A new id above reserved.broker.max.id, from the version of `/brokers/seqid`."""
    client.ensure_path(paths.BROKER_SEQUENCE)
    return reserved_max_id + client.overwrite(paths.BROKER_SEQUENCE, b"")


class Registration:
    """Keeps one broker registered. `register` is called at the start and again after every expired session."""

    def __init__(
        self,
        client: ZkClient,
        broker: Broker,
        record: SessionRecord,
        wall_clock_ms: Callable[[], int],
    ) -> None:
        self._client = client
        self._broker = broker
        self._record = record
        self._wall_clock_ms = wall_clock_ms
        self._lock = threading.Lock()
        self._mine: list[RecordedSession] = record.read()
        self._registered = False
        self._trace: Node | None = None
        """As read before the latest attempt, which may have succeeded although its response was lost."""
        self._trace_of_others: Node | None = None
        """The last one that no attempt of this object left."""
        self._tried: set[bytes] = set()
        """What this object's attempts, one for each session, leave as the trace."""
        self.epochs: list[int] = []
        """Broker epochs under which this object is known to have been registered, the oldest first: those `register`
        returned, and those whose answer was lost, and then their session. Grows alone; any thread may read it.
        """
        self.epoch_before: int | None = None
        """Broker epoch of this broker's last registration before this object's first; None where that is not known."""

    def listens_at(self, ports: Mapping[str, int]) -> None:
        """Before the first `register`: the bound ports by listener, for endpoints whose port the system chose (0)."""
        endpoints = (one if one.port else one._replace(port=ports[one.listener]) for one in self._broker.endpoints)
        self._broker = replace(self._broker, endpoints=tuple(endpoints))

    def register(self) -> int:
        """Own `/brokers/ids/N`; returns the broker epoch. Any thread, one after the other.

        Raises BrokerIdInUse, SessionExpired (call again), StoreUnavailable.
        """
        with self._lock:
            return self._register()

    def withdraw(self) -> None:
        """End the session, and with it the registration. Any thread; blocks for some seconds at most."""
        self._client.close()

    def _register(self) -> int:
        session = self._record_session()
        self._end_older_sessions(session)
        path = paths.broker_id(self._broker.id)
        data = codecs.encode_broker(replace(self._broker, epoch=-1), self._wall_clock_ms())
        wait_s = self._client.session_timeout_ms / 1000 * _WAIT_SLACK
        deadline = time.monotonic() + wait_s
        told: int | None = None
        while True:
            node = self._client.get(path)
            if node is None:
                self._read_trace()
                self._try_create(path, data, session)
                node = self._client.get(path)
            if node is not None and node.owner == session.session_id:
                if not self._registered:
                    self._registered = True
                    before = self._trace_of_others
                    self.epoch_before = None if before is None else before.mzxid
                self._mine = [session]
                self._record.write(self._mine)
                self._was_registered(node.czxid)
                return node.czxid
            joined = self._client.session_id
            if joined not in (None, session.session_id):
                # Whatever is there, it may be of our new session: calls that the old one's end cut short went on in it.
                raise SessionExpired(f"registering {path}")
            if node is not None and joined is not None and time.monotonic() > deadline:
                other = codecs.decode_broker(self._broker.id, node.data, node.czxid)
                raise BrokerIdInUse(self._refusal(other, node.owner))
            if node is not None and node.owner != told:
                told = node.owner
                _log.warning(
                    "%s", self._waits(codecs.decode_broker(self._broker.id, node.data, node.czxid), told, wait_s)
                )
            time.sleep(_POLL_S)

    def _read_trace(self) -> None:
        """A registration of this object's that landed, although its answer and then its session were lost, is none that
        the data folder was left under.
        """
        self._trace = self._client.get(paths.registration(self._broker.id))
        if self._trace is None or self._trace.data not in self._tried:
            self._trace_of_others = self._trace
        else:
            self._was_registered(self._trace.mzxid)

    def _was_registered(self, epoch: int) -> None:
        if epoch not in self.epochs:
            self.epochs.append(epoch)

    def _try_create(self, path: str, data: bytes, session: RecordedSession) -> None:
        """Whether the znode is this session's is read later: a response may be lost, another broker may be first."""
        where = paths.registration(self._broker.id)
        left = codecs.encode_json({"version": 1, "session": _hex(session.session_id)})
        self._tried.add(left)
        trace: Create | SetData
        if self._trace is None:
            self._client.ensure_path(paths.REGISTRATIONS)
            trace = Create(where, left)
        else:
            trace = SetData(where, left, self._trace.version)
        try:
            self._client.multi([Create(path, data, ephemeral=True), trace])
        except WriteRefused as refused:
            if refused.reason not in ("node-exists", "bad-version"):
                raise

    def _waits(self, other: Broker, owner: int, wait_s: float) -> str:
        return (
            f"broker.id={self._broker.id} is registered by the broker at {_where(other)} ({_session(owner)}): "
            f"waiting up to {wait_s:g} s for that session to end, as it does after a broker was killed; if that "
            "broker lives, this one will not start"
        )

    def _refusal(self, other: Broker, owner: int) -> str:
        return (
            f"broker.id={self._broker.id} is already registered by a live broker at {_where(other)} "
            f"({_session(owner)}), so the broker at {_where(self._broker)} does not start: give it another broker.id, "
            "or stop the other one. A copied data folder needs its own broker.id and no meta.properties of the original"
        )

    def _record_session(self) -> RecordedSession:
        """Note the current session on disk before it owns a znode."""
        credentials = self._client.credentials
        if credentials is None:
            raise SessionExpired("registering: not connected")
        session = RecordedSession(*credentials)
        if session not in self._mine:
            self._mine = [*self._mine, session]
            self._record.write(self._mine)
        return session

    def _end_older_sessions(self, current: RecordedSession) -> None:
        """End recorded sessions that still own this broker's znode or the controller's."""
        owners = {
            node.owner
            for path in (paths.broker_id(self._broker.id), paths.CONTROLLER)
            if (node := self._client.get(path)) is not None
        }
        for session in self._mine:
            if session.session_id in owners and session.session_id != current.session_id:
                _log.info("ending this broker's earlier ZooKeeper session %s", _hex(session.session_id))
                end_session(self._client.hosts, session)


def _where(broker: Broker) -> str:
    return ", ".join(f"{e.listener}://{e.host}:{e.port}" for e in broker.endpoints)


def _session(owner: int) -> str:
    return f"ZooKeeper session {_hex(owner)}"


def _hex(session_id: int) -> str:
    """As ZooKeeper's own messages have it."""
    return f"0x{session_id & (2**64 - 1):x}"


def end_session(hosts: str, session: RecordedSession) -> None:
    """Join a session by its id and password and close it; the server removes its ephemerals at once.

    Does nothing when the session has expired meanwhile.
    """
    client = KazooClient(hosts, timeout=_END_TIMEOUT_S, client_id=(session.session_id, session.password))
    try:
        client.start(timeout=_END_TIMEOUT_S)
    except Exception as error:
        raise StoreUnavailable(f"ending the earlier ZooKeeper session failed: {error!r}") from error
    finally:
        client.stop()
        client.close()
