"""What a failed test prints beside its traceback: the brokers' last words, for their files are gone when it is read."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from tests.support.brokers import Cluster

_OUTPUT_BYTES = 6_000
_EVENTS = 25


def add_evidence(report: pytest.TestReport, arguments: Mapping[str, object]) -> None:
    """arguments: the test's, by name; every cluster among them is asked."""
    for value in arguments.values():
        if isinstance(value, Cluster):
            report.sections += of_cluster(value)


def of_cluster(cluster: Cluster) -> list[tuple[str, str]]:
    """Title and text of each section: states of all partitions, then each broker's output and last events."""
    found = [("partition states", _states(cluster))]
    for broker in cluster.brokers.values():
        how = "not running" if broker.process is None else f"exit code {broker.process.poll()}"
        events = "\n".join(str(event) for event in broker.events()[-_EVENTS:])
        found.append((f"broker {broker.broker_id}, {how}", f"{broker.output[-_OUTPUT_BYTES:]}\n{events}"))
    return found


def _states(cluster: Cluster) -> str:
    """One line per partition; what ZooKeeper says instead where it does not answer."""
    if not cluster.zk.connected:
        # It would be waited for.
        return "no connection to ZooKeeper"
    lines = []
    try:
        lines.append(f"controller {cluster.controller()}, registered {sorted(cluster.live())}")
        for topic in sorted(cluster.zk.get_children("/brokers/topics")):
            if not topic.startswith("__"):
                partitions = cluster.zk.get_children(f"/brokers/topics/{topic}/partitions")
                lines += [f"{topic}-{one}: {cluster.state(topic, int(one))}" for one in sorted(partitions, key=int)]
    except (KazooException, KazooTimeoutError) as error:
        lines.append(repr(error))
    return "\n".join(lines)
