"""What must hold once everything has healed: the cluster comes to rest in bounded time, whole, with nothing lost."""

from __future__ import annotations

from collections.abc import Iterator

from broker.zk import paths
from broker.zk.topic_codecs import decode_topic
from tests.support.simulation.cluster import Cluster
from tests.support.simulation.observer import Violation

_LOOK_MS = 250.0


def settle(cluster: Cluster, within_ms: float) -> None:
    """Let time pass until nothing is missing. Raises Violation, with what is."""
    end_ms = cluster.scheduler.now_ms + within_ms
    while True:
        cluster.run(_LOOK_MS)
        lacking = next(missing(cluster), None)
        if lacking is None:
            return
        if cluster.scheduler.now_ms >= end_ms:
            raise Violation(f"not whole {within_ms / 1000:g} s after the last fault: " + "; ".join(missing(cluster)))


def missing(cluster: Cluster) -> Iterator[str]:
    """What a whole cluster at rest has and this one lacks."""
    zookeeper = cluster.zookeeper
    if cluster.admin.waiting:
        yield f"{cluster.admin.waiting} requests of the administrator have no answer"
    for id_ in cluster.ids:
        process = cluster.brokers[id_]
        if process is None or not process.serving or paths.broker_id(id_) not in zookeeper.nodes:
            yield f"b{id_} is not up"
            return
    if sum(process is not None and process.controls for process in cluster.brokers.values()) != 1:
        yield "not one controller"
    for path in (paths.DELETE_TOPICS, paths.TOPICS):
        if path == paths.DELETE_TOPICS and zookeeper.nodes[path].children:
            yield f"to be deleted: {sorted(zookeeper.nodes[path].children)}"
    for path in (paths.PREFERRED_ELECTION, paths.REASSIGNMENT):
        if path in zookeeper.nodes:
            yield f"{path}: {zookeeper.nodes[path].data.decode()}"
    hosted: dict[tuple[str, int], set[int]] = {}
    for name in sorted(zookeeper.nodes[paths.TOPICS].children):
        topic = decode_topic(name, zookeeper.nodes[paths.topic(name)].data)
        if topic.adding or topic.removing:
            yield f"{name} is being reassigned: adding {topic.adding}, removing {topic.removing}"
        for partition, replicas in sorted(topic.partitions.items()):
            hosted[name, partition] = set(replicas)
            yield from _of_partition(cluster, name, topic.topic_id, partition, set(replicas))
    yield from _of_strangers(cluster, hosted)


def _of_partition(cluster: Cluster, topic: str, topic_id: str, partition: int, replicas: set[int]) -> Iterator[str]:
    name = f"{topic}~{topic_id}-{partition}"
    state = cluster.observer.states.get((topic, partition))
    if state is None or state["leader"] < 0 or set(state["isr"]) != replicas:
        yield f"{name}: replicas {sorted(replicas)}, state {state}"
        return
    ends = {}
    for id_ in sorted(replicas):
        process = cluster.brokers[id_]
        assert process is not None
        manager = process.manager
        replica = None if manager is None else manager.replicas.by_partition.get((topic, partition))
        if replica is None or replica.topic_id != topic_id:
            yield f"{name}: no replica on b{id_}"
            return
        if replica.offline or replica.partition.leader_epoch != state["leader_epoch"]:
            yield f"{name}: b{id_} is in epoch {replica.partition.leader_epoch}, state {state}"
        if (replica.leader is not None) != (id_ == state["leader"]):
            yield f"{name}: b{id_} has the wrong role, state {state}"
        ends[id_] = (replica.log.log_end_offset, replica.high_watermark)
    if len({end for pair in ends.values() for end in pair}) != 1:
        yield f"{name}: ends and watermarks by broker: {ends}"
    for id_ in cluster.ids:
        process = cluster.brokers[id_]
        assert process is not None
        assert process.control is not None
        leader = process.control.cache.leader_of(topic, partition)
        if leader != (state["leader"], state["leader_epoch"]):
            yield f"{name}: b{id_}'s metadata says {leader}, state {state}"


def _of_strangers(cluster: Cluster, hosted: dict[tuple[str, int], set[int]]) -> Iterator[str]:
    """Roles that no assignment gives. A log may stay where its broker was away as it should have removed it."""
    for id_, process in cluster.brokers.items():
        manager = None if process is None else process.manager
        for (topic, partition), replica in (
            () if manager is None else sorted(manager.replicas.by_partition.items(), key=lambda one: one[0])
        ):
            if id_ not in hosted.get((topic, partition), ()) and replica.partition.role is not None:
                yield f"b{id_} still has a role in {topic}-{partition}"


def judge(cluster: Cluster) -> None:
    """Everything that was acknowledged, and all that was shown, is in every log. Raises Violation."""
    observer = cluster.observer
    for name in sorted(set(observer.acknowledged) | set(observer.shown) | set(observer.committed)):
        topic, _, rest = name.partition("~")
        topic_id, _, partition = rest.rpartition("-")
        if observer.topic_ids.get(topic) != topic_id:
            continue  # deleted
        state = observer.states[topic, int(partition)]
        for id_ in state["isr"]:
            values = [value for _, value in observer.logs.get((id_, name), [])]
            for what, told in (("acknowledged", observer.acknowledged[name]), ("shown", observer.shown[name])):
                for offset, value in told.items():
                    if offset >= len(values) or values[offset] != value:
                        observer.fail(
                            f"{name}: {value} was {what} at {offset}, b{id_} has {values[offset : offset + 1]}"
                        )
            if len(set(values)) != len(values):
                observer.fail(f"{name}: b{id_} has a record twice: {values}")
            if observer.logs[id_, name] != observer.committed[name]:
                observer.fail(f"{name}: b{id_} has {observer.logs[id_, name]}, committed is {observer.committed[name]}")
        consumer = cluster.consumers.get((topic, int(partition)))
        if consumer is not None and consumer.position != len(observer.committed[name]):
            observer.fail(f"{name}: its consumer is at {consumer.position} of {len(observer.committed[name])}")
