"""A connection to ZooKeeper that is lost while the session lives: nothing is missed, and everything is read once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from broker.core.controller.cluster_state import Topic
from broker.core.controller.stored import TopicsRead, Watch
from broker.model.ids import TopicPartition
from broker.zk import admin_codecs, codecs, paths, topic_codecs
from broker.zk.registration import end_session
from broker.zk.session import SessionEvent
from broker.zk.session_file import RecordedSession
from tests.integration.controller.conftest import Cluster, Node, topic_id
from tests.support.proxy import Proxy
from tests.support.wait import eventually
from tests.support.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.guarantee("C9")

TOPICS = 50


@pytest.fixture
def proxy(server: ZooKeeperServer) -> Iterator[Proxy]:
    between = Proxy(server.port)
    yield between
    between.close()


@pytest.fixture
def cut_off(cluster: Cluster, server: ZooKeeperServer, proxy: Proxy) -> Iterator[Node]:
    """Broker 1, controller, behind the proxy; broker 2 is not."""
    direct, cluster.hosts = cluster.hosts, cluster.hosts.replace(str(server.port), str(proxy.port))
    node = cluster.add(1)
    cluster.hosts = direct
    assert cluster.active() is node
    cluster.add(2)
    yield node
    # While the proxy is open: a controller that cannot reach ZooKeeper takes 5 s to resign.
    node.stop()
    cluster.remove(node)


def cut(node: Node, proxy: Proxy, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Break the connection; returns when it is back and the controller has come to all that it heard of until then."""
    back = threading.Event()
    node.client.add_session_listener(lambda event: back.set() if event is SessionEvent.CONNECTED else None)
    proxy.refusing = True
    proxy.cut()
    meanwhile()
    proxy.refusing = False
    assert back.wait(20)
    handled = threading.Event()
    node.controller.request(lambda term: None, lambda error: None, lambda answer: handled.set())
    assert handled.wait(20)


def grow(cluster: Cluster, name: str, replicas: tuple[int, ...]) -> None:
    """One partition more."""
    node = cluster.client.get(paths.topic(name))
    assert node is not None
    partitions = topic_codecs.decode_topic(name, node.data).partitions
    more = Topic(name, topic_id(name), {**partitions, len(partitions): replicas})
    cluster.client.set(paths.topic(name), topic_codecs.encode_topic(more, node.data), node.version)


def test_whatever_changes_while_the_controller_is_cut_off_is_noticed(
    cluster: Cluster, cut_off: Node, proxy: Proxy
) -> None:
    client = cluster.client
    for name in ("grown", "moved", "doomed"):
        cluster.create_topic(name, {0: (1,)})
    cluster.create_topic("failed", {0: (2, 1)})
    cluster.await_leader("failed", 2)
    for name in ("grown", "moved", "doomed"):
        cluster.await_leader(name, 1)
    ending = cluster.nodes[1]
    target = {TopicPartition("moved", 0): (3,)}
    cluster.add(3)

    def change() -> None:
        cluster.create_topic("new", {0: (1,)})
        grow(cluster, "grown", (1,))
        client.create(paths.delete_topic("doomed"), b"")
        client.create(paths.REASSIGNMENT, admin_codecs.encode_reassignment(target))
        client.create(paths.PREFERRED_ELECTION, admin_codecs.encode_preferred_election([TopicPartition("grown", 0)]))
        client.create_sequence(paths.LOG_DIR_EVENT_PREFIX, codecs.encode_log_dir_event(3))
        cluster.remove(ending)
        ending.kill()

    def adding() -> dict[int, tuple[int, ...]]:
        node = client.get(paths.topic("moved"))
        return {} if node is None else dict(topic_codecs.decode_topic("moved", node.data).adding)

    cut(cut_off, proxy, change)
    assert cut_off.controller.active
    cluster.await_leader("new", 1)
    cluster.await_leader("grown", 1, 1)
    cluster.await_leader("failed", 1)
    eventually(lambda: client.get(paths.topic("doomed")) is None, "the deletion")
    eventually(lambda: adding() == {0: (3,)}, "the reassignment")
    eventually(lambda: client.get(paths.PREFERRED_ELECTION) is None, "the elections that were asked for")
    eventually(lambda: not client.children(paths.LOG_DIR_EVENTS), "the event of failed files")
    # And whatever changes from now on.
    grow(cluster, "grown", (1,))
    cluster.await_leader("grown", 1, 2)
    cluster.create_topic("newer", {0: (1,)})
    cluster.await_leader("newer", 1)


def test_topics_are_read_once_after_a_lost_connection(
    cluster: Cluster, cut_off: Node, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in range(TOPICS):
        cluster.create_topic(f"t{index}", {0: (1,)})
    for index in range(TOPICS):
        cluster.await_leader(f"t{index}", 1)
    reads: list[Sequence[str]] = []
    topics = cut_off.store.topics

    def counted(names: Sequence[str], watch: Callable[[str], Watch]) -> TopicsRead:
        reads.append(names)
        return topics(names, watch)

    monkeypatch.setattr(cut_off.store, "topics", counted)
    cut(cut_off, proxy)
    assert [len(names) for names in reads] == [TOPICS]


def test_candidate_whose_session_ended_learns_who_is_controller_before_it_is_registered_anew(cluster: Cluster) -> None:
    controller, other = cluster.add(1), cluster.add(2)
    assert cluster.active() is controller
    renewed = threading.Event()
    other.client.add_session_listener(lambda event: renewed.set() if event is SessionEvent.NEW_SESSION else None)
    credentials = other.client.credentials
    assert credentials is not None
    end_session(cluster.hosts.partition("/")[0], RecordedSession(*credentials))
    assert renewed.wait(20)
    cluster.add(3)
    cluster.remove(controller)
    controller.kill()
    eventually(lambda: other.known_controllers[-1:] == [3], "the word of the next controller")
