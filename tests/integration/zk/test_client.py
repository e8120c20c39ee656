"""The client against a real ZooKeeper: lost answers, conflicts, sessions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, UnimplementedError

from benchmarks.ports import free_port
from broker.core.controller.cluster_state import StoreUnavailable, WriteUnknown
from broker.zk.admin_store import ZkAdminStore
from broker.zk.client import WriteRefused, ZkClient
from broker.zk.multi_read import MultiRead
from broker.zk.operations import Check, Create, Delete, Operation, SetData
from broker.zk.registration import end_session, prepare
from broker.zk.session import SessionEvent
from broker.zk.session_file import RecordedSession
from tests.support.proxy import Proxy
from tests.support.thread_limit import refuse_threads
from tests.support.wait import eventually
from tests.support.zookeeper import ZooKeeperServer, start_zookeeper

pytestmark = pytest.mark.guarantee("C9", "no-thread")

Connect = Callable[..., ZkClient]


@pytest.fixture
def proxy(server: ZooKeeperServer) -> Iterator[Proxy]:
    between = Proxy(server.port)
    yield between
    between.close()


@pytest.fixture
def proxied(server: ZooKeeperServer, proxy: Proxy, hosts: str) -> Iterator[ZkClient]:
    client = ZkClient(hosts.replace(str(server.port), str(proxy.port)), 10_000, 10_000)
    client.start()
    yield client
    client.close()


def test_start_without_server_names_hosts_and_setting() -> None:
    client = ZkClient(f"127.0.0.1:{free_port()}", 1000, 300)
    with pytest.raises(StoreUnavailable, match=r"zookeeper\.connect=127\.0\.0\.1"):
        client.start()


def test_set_with_stale_version_is_refused(connect: Connect) -> None:
    client = connect()
    client.create("/a", b"1")
    assert client.set("/a", b"2", 0) == 1
    with pytest.raises(WriteRefused) as refused:
        client.set("/a", b"3", 0)
    assert refused.value.reason == "bad-version"
    node = client.get("/a")
    assert node is not None
    assert (node.data, node.version) == (b"2", 1)


def _count_gets(client: ZkClient, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    gets: list[str] = []
    get = client._client.get_async

    def counted(path: str, watch: object = None) -> object:
        gets.append(path)
        return get(path, watch=watch)

    monkeypatch.setattr(client._client, "get_async", counted)
    return gets


def test_many_znodes_are_read_by_few_requests(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    client = connect()
    paths = [f"/many-{number}" for number in range(300)]
    client.multi([Create(path, path.encode()) for path in paths])
    gets = _count_gets(client, monkeypatch)
    found = client.get_many([*paths, "/none", "/", paths[0]])
    assert gets == []
    assert {path: node and node.data for path, node in found.items()} == {
        **{path: path.encode() for path in paths},
        "/none": None,
        "/": b"",
    }
    assert found["/many-7"] == client.get("/many-7")


def test_server_that_cannot_read_many_is_asked_for_each(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    client = connect()
    client.multi([Create("/a", b"1"), Create("/b", b"2")])
    call, asked = client._client._call, []

    def older(request: Any, result: Any) -> None:
        if isinstance(request, MultiRead):
            asked.append(request)
            result.set_exception(UnimplementedError())
        else:
            call(request, result)

    monkeypatch.setattr(client._client, "_call", older)
    for _ in range(2):
        found = client.get_many(["/a", "/b", "/c"])
        assert {path: node and node.data for path, node in found.items()} == {"/a": b"1", "/b": b"2", "/c": None}
    assert len(asked) == 1


def test_many_znodes_are_read_though_the_connection_ends(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    client = connect()
    client.multi([Create("/a", b"1"), Create("/b", b"2")])
    call = client._client._call

    def cut(request: Any, result: Any) -> None:
        if isinstance(request, MultiRead):
            result.set_exception(ConnectionLoss())
        else:
            call(request, result)

    monkeypatch.setattr(client._client, "_call", cut)
    assert [node and node.data for node in client.get_many(["/a", "/b"]).values()] == [b"1", b"2"]
    monkeypatch.undo()
    gets = _count_gets(client, monkeypatch)
    assert [node and node.data for node in client.get_many(["/a", "/b"]).values()] == [b"1", b"2"]
    assert gets == [], "the next time they are read together again"


def test_multi_with_failed_check_changes_nothing(connect: Connect) -> None:
    client = connect()
    client.create("/a", b"1")
    with pytest.raises(WriteRefused) as refused:
        client.multi([Create("/b", b""), Check("/a", 7)])
    assert (refused.value.index, refused.value.reason) == (1, "bad-version")
    assert client.get("/b") is None


@pytest.mark.parametrize("ephemeral", [True, False])
def test_create_whose_response_is_lost_is_ours(proxy: Proxy, proxied: ZkClient, ephemeral: bool) -> None:
    proxy.lose_after = lambda chunk: b"/mine" in chunk
    proxied.create("/mine", b"data", ephemeral=ephemeral)
    assert proxy.lose_after is None, "the answer was not lost: the test proves nothing"
    node = proxied.get("/mine")
    assert node is not None
    assert node.owner == (proxied.session_id if ephemeral else 0)


def test_set_whose_response_is_lost_happens_once(proxy: Proxy, proxied: ZkClient) -> None:
    proxied.create("/a", b"0")
    proxy.lose_after = lambda chunk: b"hello" in chunk
    assert proxied.set("/a", b"hello", 0) == 1
    assert proxy.lose_after is None
    node = proxied.get("/a")
    assert node is not None
    assert node.version == 1


def test_change_that_may_have_been_made_and_overwritten_is_not_made_again(
    proxy: Proxy, proxied: ZkClient, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(proxied)
    mine, other = ZkAdminStore(proxied), ZkAdminStore(connect())
    entity, key = "brokers/<default>", "min.insync.replicas"
    assert mine.write_config(mine.read_config(entity), {key: "0"})
    read, read_back = mine.read_config(entity), proxied._read_back

    def overtaken(operations: Sequence[Operation]) -> object:
        # The connection is cut when the server has been sent the write, which is before it has made it.
        eventually(lambda: other.read_config(entity).config != {key: "0"}, "the write whose answer is lost")
        assert other.write_config(other.read_config(entity), {key: "2"})
        return read_back(operations)

    monkeypatch.setattr(proxied, "_read_back", overtaken)
    proxy.lose_after = lambda chunk: b'"1"' in chunk
    # Told that it was refused, who asked for it would read "2", and set "1" once more.
    with pytest.raises(WriteUnknown, match="whether it was written"):
        mine.write_config(read, {key: "1"})
    assert proxy.lose_after is None
    assert other.read_config(entity).config == {key: "2"}


def test_multi_whose_response_is_lost_reports_versions(proxy: Proxy, proxied: ZkClient) -> None:
    proxied.create("/epoch", b"1")
    proxied.create("/state", b"0")
    proxy.lose_after = lambda chunk: b"second" in chunk
    assert proxied.multi([Check("/epoch", 0), SetData("/state", b"second", 0)]) == [0, 1]
    assert proxy.lose_after is None


def test_delete_whose_response_is_lost_is_done(proxy: Proxy, proxied: ZkClient) -> None:
    proxied.create("/gone", b"")
    proxy.lose_after = lambda chunk: b"/gone" in chunk
    proxied.multi([Delete("/gone", 0)])
    assert proxy.lose_after is None
    assert proxied.get("/gone") is None


def test_reads_survive_a_cut_connection(proxy: Proxy, proxied: ZkClient) -> None:
    proxied.create("/a", b"x")
    session_id = proxied.session_id
    proxy.cut()
    node = proxied.get("/a")
    assert node is not None
    assert node.data == b"x"
    assert proxied.session_id == session_id


def test_silent_server_ages_contact_without_lost_event(server: ZooKeeperServer, connect: Connect) -> None:
    client = connect(session_timeout_ms=600)
    events: list[SessionEvent] = []
    client.add_session_listener(events.append)
    server.pause()
    try:
        deadline = time.monotonic() + 20
        while client.session_deadline_ms > time.monotonic() * 1000:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert SessionEvent.LOST not in events
    finally:
        server.resume()
    while client.session_deadline_ms < time.monotonic() * 1000:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_server_restart_keeps_session_and_rearms_nothing_silently(tmp_path: Path) -> None:
    server = start_zookeeper(tmp_path)
    client = ZkClient(server.connect, 20_000, 10_000)
    try:
        client.start()
        connected = threading.Event()
        client.add_session_listener(lambda event: connected.set() if event is SessionEvent.CONNECTED else None)
        client.create("/e", b"", ephemeral=True)
        server.restart()
        assert client.get("/e") is not None
        assert connected.wait(20)
        client.set("/e", b"1", 0)
    finally:
        client.close()
        server.stop()


def test_expired_session_is_renewed_and_reported(server: ZooKeeperServer, connect: Connect) -> None:
    client = connect(session_timeout_ms=1000)
    renewed = threading.Event()
    client.add_session_listener(lambda event: renewed.set() if event is SessionEvent.NEW_SESSION else None)
    client.create("/e", b"", ephemeral=True)
    first = client.credentials
    assert first is not None
    end_session(server.connect, RecordedSession(*first))
    assert renewed.wait(20)
    assert client.get("/e") is None
    assert client.session_id != first[0]


def test_watch_fires_once_on_change(connect: Connect) -> None:
    client, other = connect(), connect()
    fired = threading.Semaphore(0)
    assert client.exists("/w", fired.release) is False
    other.create("/w", b"")
    assert fired.acquire(timeout=10)
    other.set("/w", b"1", 0)
    assert not fired.acquire(timeout=0.2)


def test_lost_connection_ends_watches_and_calls_none(proxy: Proxy, proxied: ZkClient, connect: Connect) -> None:
    back, heard = threading.Event(), threading.Event()
    proxied.add_session_listener(lambda event: back.set() if event is SessionEvent.CONNECTED else None)
    fired: list[str] = []
    proxied.create("/w", b"")
    proxied.exists("/w", lambda: fired.append("exists"))
    proxied.get("/w", lambda: fired.append("get"))
    proxied.get_watched({"/w": lambda: fired.append("get_watched")})
    proxied.children("/", lambda: fired.append("children"))
    proxy.cut()
    assert back.wait(20)
    proxied.exists("/w", heard.set)
    connect().multi([SetData("/w", b"1", 0), Create("/new", b"")])
    # kazoo calls watches one after the other: this one comes last.
    assert heard.wait(20)
    assert fired == []


def test_delete_recursive_removes_subtree(connect: Connect) -> None:
    client = connect()
    client.ensure_path("/a/b/c")
    client.ensure_path("/a/d")
    client.delete_recursive("/a")
    assert client.get("/a") is None


@pytest.mark.parametrize(("asked_ms", "granted_ms"), [(60_000, 2_000), (100, 400), (1_000, 1_000)])
def test_session_deadline_rests_on_what_the_server_granted(tmp_path: Path, asked_ms: int, granted_ms: int) -> None:
    server = ZooKeeperServer(tmp_path / "zk", min_session_ms=400, max_session_ms=2_000)
    server.start()
    client = ZkClient(server.connect, asked_ms, 20_000)
    try:
        client.start()
        eventually(lambda: client.session_timeout_ms == granted_ms, "the granted time-out")
        # The loop's clock and this one are the same; contact lies in the past.
        assert client.session_deadline_ms <= time.monotonic() * 1000 + granted_ms
    finally:
        client.close()
        server.stop()


def wait_for_proofs(client: ZkClient, count: int = 3) -> None:
    """Until the deadline has risen so often: by what was sent on the connection at hand, then."""
    for _ in range(count):
        before = client.session_deadline_ms
        eventually(partial(lambda was: client.session_deadline_ms > was, before), "the deadline rises")


def test_what_keeps_the_deadline_up_changes_nothing_and_needs_nothing(
    server: ZooKeeperServer, hosts: str, connect: Connect
) -> None:
    client = connect(session_timeout_ms=600)
    chroot = "/" + hosts.partition("/")[2]
    plain = KazooClient(server.connect)
    plain.start()
    try:
        fired: list[object] = []
        for path in ("/", chroot):
            plain.get(path, watch=fired.append)
            plain.get_children(path, watch=fired.append)
        before = [plain.get(path)[1] for path in ("/", chroot)]
        wait_for_proofs(client)
        assert [plain.get(path)[1] for path in ("/", chroot)] == before
        assert fired == []
        plain.delete(chroot)
        wait_for_proofs(client)
    finally:
        plain.stop()
        plain.close()


def test_server_that_falls_silent_is_left_for_another_before_the_session_is_over(server: ZooKeeperServer) -> None:
    doors = [Proxy(server.port) for _ in range(2)]
    client = ZkClient(",".join(f"127.0.0.1:{door.port}" for door in doors), 4000, 10_000)
    try:
        client.start()
        events: list[SessionEvent] = []
        client.add_session_listener(events.append)
        (used,) = [door for door in doors if door.connections]
        used.silent = True
        eventually(lambda: SessionEvent.CONNECTED in events, "the other door")
        wait_for_proofs(client)
        assert events == [SessionEvent.SUSPENDED, SessionEvent.CONNECTED], "the session goes on"
    finally:
        client.close()
        for door in doors:
            door.close()


def test_close_ends_the_session_where_no_further_thread_can_be_started(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher, ending = connect(60_000), connect(60_000)
    ending.create("/mine", b"", ephemeral=True)
    refuse_threads(monkeypatch)
    ending.close()
    ending.close()
    eventually(lambda: watcher.get("/mine") is None)


def test_close_does_not_wait_for_a_server_that_is_silent(tmp_path: Path) -> None:
    server = ZooKeeperServer(tmp_path / "zk")
    server.start()
    client = ZkClient(server.connect, 30_000, 20_000)
    try:
        client.start()
        server.pause()
        before = time.monotonic()
        client.close()
        assert time.monotonic() - before < 15, "half of the session's time-out"
    finally:
        server.resume()
        server.stop()
