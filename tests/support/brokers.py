"""Real broker processes on loopback for tests, over a real ZooKeeper.

`running_cluster(folder)` yields a cluster whose brokers all answer; everything is gone afterwards, also when the test
process is killed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kazoo.client import KazooClient

from benchmarks.ports import free_port
from broker.wire.api import ApiKey
from broker.wire.messages.metadata import MetadataResponse
from tests.support.zookeeper import ZooKeeperEnsemble, ZooKeeperServer, _die_with_parent

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(os.environ.get("HIGHWATER_TEST_SOURCE") or ROOT)
"""The folder of the package `broker` that clusters run where a test names none; `make test-compiled` sets it."""
_DEADLINE_S = 60.0
# Leadership that goes back by itself would come between what a test does and what it looks at.
_SETTINGS = {"zookeeper.session.timeout.ms": "2000", "auto.leader.rebalance.enable": "false"}


class Broker:
    """One broker process; `start` after `kill` or `stop` resumes with the same data, port and id."""

    def __init__(
        self,
        folder: Path,
        broker_id: int,
        zookeeper: str,
        settings: Mapping[str, str],
        command: list[str],
        source: Path,
        host: str = "127.0.0.1",
    ) -> None:
        self.folder = folder
        self.broker_id = broker_id
        self.host = host
        self.port = free_port()
        self.event_log = folder / "events.jsonl"
        self._command = command
        self._source = source
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)
        values = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{host}:{self.port}",
            "log.dirs": str(folder / "data"),
            "zookeeper.connect": zookeeper,
            "lab.event.log": str(self.event_log),
            **settings,
        }
        self.config = folder / "server.properties"
        self.config.write_text("".join(f"{key}={value}\n" for key, value in values.items() if value), encoding="utf-8")

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def output(self) -> str:
        return (self.folder / "out.log").read_text(errors="replace")

    def start(self) -> None:
        assert self.process is None, f"broker {self.broker_id} is already running"
        with (self.folder / "out.log").open("ab") as out:
            self.process = subprocess.Popen(
                [*self._command, "--config", str(self.config)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": str(self._source), "PYTHONUNBUFFERED": "1"},
                preexec_fn=_die_with_parent,
            )

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        return self._end(signal.SIGTERM)

    def pause(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def events(self) -> list[dict[str, object]]:
        """The event log so far, a torn last line left out."""
        lines = self.event_log.read_text().split("\n")[:-1] if self.event_log.exists() else []
        return [json.loads(line) for line in lines]

    def _end(self, how: signal.Signals) -> int:
        if self.process is None:
            return 0
        if how is not signal.SIGKILL:
            self.process.send_signal(signal.SIGCONT)
        self.process.send_signal(how)
        try:
            code = self.process.wait(_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"broker {self.broker_id} did not end on {how.name}: {self.output[-3000:]}") from None
        self.process = None
        return code


class Cluster:
    """A ZooKeeper and its brokers, by id."""

    def __init__(
        self, zookeeper: ZooKeeperServer, brokers: Mapping[int, Broker], ensemble: ZooKeeperEnsemble | None = None
    ) -> None:
        """zookeeper: the only server, or one of the ensemble."""
        self.zookeeper = zookeeper
        self.brokers = brokers
        self.zk = KazooClient((ensemble or zookeeper).connect)
        self.zk.start()

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())

    @property
    def running(self) -> dict[int, Broker]:
        """Brokers that have a process, by id."""
        return {i: broker for i, broker in self.brokers.items() if broker.process is not None}

    def live(self) -> set[int]:
        """Ids registered in ZooKeeper."""
        return {int(name) for name in self.zk.get_children("/brokers/ids")} if self.zk.exists("/brokers/ids") else set()

    def state(self, topic: str, partition: int) -> dict[str, object] | None:
        """The partition's state znode, None when it is not there yet."""
        path = f"/brokers/topics/{topic}/partitions/{partition}/state"
        if not self.zk.exists(path):
            return None
        loaded: dict[str, object] = json.loads(self.zk.get(path)[0])
        return loaded

    def controller(self) -> int | None:
        if not self.zk.exists("/controller"):
            return None
        return int(json.loads(self.zk.get("/controller")[0])["brokerid"])

    def wait_state(self, topic: str, partition: int, *, leader: int | None = None, isr: set[int] | None = None) -> None:
        """Until the state znode has this leader (any live one when None) and this ISR (any when None)."""

        def reached() -> bool:
            state = self.state(topic, partition)
            return (
                state is not None
                and (state["leader"] == leader if leader is not None else state["leader"] != -1)
                and (isr is None or set(state["isr"]) == isr)  # type: ignore[call-overload]
            )

        wait_until(
            reached, lambda: f"{topic}-{partition}: leader {leader}, ISR {isr}; is {self.state(topic, partition)}"
        )

    def wait_told(self, topic: str) -> None:
        """Until every running broker tells its clients of a running leader for each partition of the topic.

        A creation is answered, and an election written, before all brokers have heard of it by UpdateMetadata, as in
        Kafka: a client that does not ask again may hear that there is no such topic, or wait for the dead leader.
        """
        running = self.running

        def informed(broker: Broker) -> bool:
            answer = metadata_of(broker.host, broker.port)
            found = [one for one in answer.topics if one.name == topic] if answer is not None else []
            return bool(found) and all(partition.leader_id in running for partition in found[0].partitions)

        wait_until(lambda: all(map(informed, running.values())), f"every broker tells who leads {topic}")

    def wait_known(self) -> None:
        """Until every running broker tells of exactly those that run: then the controller knows of them too."""
        running = self.running
        wait_until(lambda: all(_known_to(b) == set(running) for b in running.values()), "every broker knows all")

    def close(self) -> None:
        for broker in self.brokers.values():
            if broker.process is not None:
                broker.kill()
        self.zk.stop()
        self.zk.close()


def metadata_of(host: str, port: int) -> MetadataResponse | None:
    """What a broker tells its clients of all brokers and topics; None while it does not answer."""
    request = struct.pack(">hhihi", ApiKey.METADATA, 1, 0, -1, -1)
    try:
        with socket.create_connection((host, port), timeout=1) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as answers:
                (size,) = struct.unpack(">i", answers.read(4))
                return MetadataResponse.decode(1, answers.read(size)[4:])
    except (OSError, struct.error):
        return None


def _known_to(broker: Broker) -> set[int]:
    """Ids of the brokers of which this one tells its clients; none while it does not answer."""
    answer = metadata_of(broker.host, broker.port)
    return set() if answer is None else {known.node_id for known in answer.brokers}


def wait_until(condition: Callable[[], bool], what: Callable[[], str] | str, timeout_s: float = _DEADLINE_S) -> None:
    """Poll a condition that another process brings about; AssertionError with `what` when it does not come."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what if isinstance(what, str) else what()}")
        time.sleep(0.02)


@contextmanager
def running_cluster(
    folder: Path,
    brokers: int = 3,
    settings: Mapping[str, str] | None = None,
    overrides: Mapping[int, Mapping[str, str]] | None = None,
    command: list[str] | None = None,
    source: Path = SOURCE,
    hosts: Mapping[int, tuple[str, list[str]]] | None = None,
    zookeeper_host: str = "127.0.0.1",
    zookeeper_port: int = 0,
    ensemble: ZooKeeperEnsemble | None = None,
) -> Iterator[Cluster]:
    """A ZooKeeper and `brokers` brokers with ids from 1, all registered and answering.

    settings: for all brokers, an empty value leaves one out. overrides: for one broker id. source: folder that holds
    the `broker` package.
    hosts: per broker its address, and the command that runs another there.
    ensemble: instead of a ZooKeeper of the cluster's own.
    """
    zookeeper = (
        ZooKeeperServer(folder / "zookeeper", zookeeper_port, host=zookeeper_host)
        if ensemble is None
        else ensemble.servers[1]
    )
    (ensemble or zookeeper).start()
    made = {
        i: Broker(
            folder / f"broker-{i}",
            i,
            (ensemble or zookeeper).connect,
            {**_SETTINGS, **(settings or {}), **(overrides or {}).get(i, {})},
            [*(hosts[i][1] if hosts else []), *(command or [sys.executable, "-m", "broker.cli"])],
            source,
            hosts[i][0] if hosts else "127.0.0.1",
        )
        for i in range(1, brokers + 1)
    }
    cluster = Cluster(zookeeper, made, ensemble)
    try:
        for broker in made.values():
            broker.start()
        wait_until(
            lambda: cluster.live() == set(made),
            lambda: "all brokers registered; output: " + "\n".join(b.output[-2000:] for b in made.values()),
        )
        if hosts is None:
            cluster.wait_known()
        yield cluster
    finally:
        cluster.close()
        (ensemble or zookeeper).stop()
