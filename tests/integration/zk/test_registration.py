"""Registering under a broker id: refusing a second broker, and coming back inside one's own old session."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from broker.core.controller.cluster_state import Broker, BrokerEndpoint, StoreUnavailable
from broker.zk import codecs, paths
from broker.zk.client import SessionExpired, ZkClient
from broker.zk.operations import Operation
from broker.zk.registration import BrokerIdInUse, Registration, cluster_id, end_session, generate_broker_id, prepare
from broker.zk.session_file import RecordedSession, SessionFile
from tests.support.proxy import Proxy
from tests.support.wait import eventually
from tests.support.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.guarantee("C1")

Connect = Callable[..., ZkClient]
BROKER = Broker(1, -1, (BrokerEndpoint("PLAINTEXT", "10.0.0.1", 9092, "PLAINTEXT"),), "rack-a")


def registration(client: ZkClient, folder: Path) -> Registration:
    folder.mkdir(exist_ok=True)
    return Registration(client, BROKER, SessionFile(folder), lambda: 1_700_000_000_000)


@pytest.fixture
def ready(connect: Connect) -> Connect:
    prepare(connect())
    return connect


def test_register_writes_kafka_layout_and_returns_czxid(ready: Connect, tmp_path: Path) -> None:
    client = ready()
    epoch = registration(client, tmp_path).register()
    node = client.get("/brokers/ids/1")
    assert node is not None
    assert node.czxid == epoch
    assert node.owner == client.session_id
    fields = codecs.decode_json(node.data, "/brokers/ids/1")
    assert (fields["version"], fields["host"], fields["port"]) == (5, "10.0.0.1", 9092)
    assert fields["endpoints"] == ["PLAINTEXT://10.0.0.1:9092"]
    assert fields["rack"] == "rack-a"


def test_second_broker_with_same_id_is_refused_by_name(ready: Connect, tmp_path: Path) -> None:
    first = ready()
    registration(first, tmp_path / "first").register()
    with pytest.raises(BrokerIdInUse, match=r"broker\.id=1 .*10\.0\.0\.1:9092"):
        registration(ready(session_timeout_ms=1500), tmp_path / "second").register()
    node = first.get("/brokers/ids/1")
    assert node is not None
    assert node.owner == first.session_id


def test_broker_whose_id_is_taken_says_once_that_it_waits_and_how_long(
    ready: Connect, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    registration(ready(), tmp_path / "first").register()
    with caplog.at_level("WARNING", "broker.zk"), pytest.raises(BrokerIdInUse):
        registration(ready(session_timeout_ms=1600), tmp_path / "second").register()
    (said,) = [one.getMessage() for one in caplog.records if "waiting" in one.getMessage()]
    assert "broker.id=1 is registered by the broker at PLAINTEXT://10.0.0.1:9092" in said
    assert "waiting up to 2.4 s for that session to end" in said


def test_cloned_folder_beside_live_broker_is_refused(ready: Connect, tmp_path: Path) -> None:
    first = ready()
    epoch = registration(first, tmp_path / "first").register()
    shutil.copytree(tmp_path / "first", tmp_path / "clone")
    with pytest.raises(BrokerIdInUse):
        registration(ready(session_timeout_ms=1500), tmp_path / "clone").register()
    node = first.get("/brokers/ids/1")
    assert node is not None
    assert node.czxid == epoch


@pytest.fixture
def abandoned(ready: Connect, server: ZooKeeperServer, hosts: str) -> Iterator[Callable[..., int]]:
    """Register as a broker that is then killed: its session stays open on the server, nobody renews it.

    A client whose connection alone was broken would join its session again, and take it from whoever ends it.
    """
    door = Proxy(server.port)
    client = ZkClient(hosts.replace(str(server.port), str(door.port)), 60_000, 10_000)

    def register(folder: Path, extra: dict[str, bytes]) -> int:
        client.start()
        epoch = registration(client, folder).register()
        for path, data in extra.items():
            client.create(path, data, ephemeral=True)
        door.refusing = True
        door.cut()
        return epoch

    yield register
    door.refusing = False
    client.close()
    door.close()


def test_restart_within_old_session_takes_over_at_once(
    ready: Connect, abandoned: Callable[..., int], tmp_path: Path
) -> None:
    old = abandoned(tmp_path, {paths.CONTROLLER: codecs.encode_controller(1, 0)})
    restarted = ready(session_timeout_ms=60_000)
    new = registration(restarted, tmp_path).register()
    assert new > old
    assert restarted.get(paths.CONTROLLER) is None, "the dead incarnation still holds the controllership"


def test_restart_after_crash_between_session_and_znode_still_knows_its_oldest(
    ready: Connect, abandoned: Callable[..., int], tmp_path: Path
) -> None:
    abandoned(tmp_path, {})
    record = SessionFile(tmp_path)
    record.write([*record.read(), RecordedSession(12345, b"\x01" * 16)])
    epoch = registration(ready(session_timeout_ms=60_000), tmp_path).register()
    assert epoch > 0
    assert len(record.read()) == 1


def test_broker_whose_id_another_has_taken_ends_no_session_but_its_own(ready: Connect, tmp_path: Path) -> None:
    first = ready()
    registration(first, tmp_path / "first").register()
    (mine,) = SessionFile(tmp_path / "first").read()
    # As if it had expired; the record of it stays.
    end_session(first.hosts, mine)
    other = ready(session_timeout_ms=30_000)
    epoch = registration(other, tmp_path / "other").register()
    again = registration(ready(session_timeout_ms=1500), tmp_path / "first")

    def is_refused() -> bool:
        """A connection that ends meanwhile is to be tried again."""
        try:
            again.register()
        except BrokerIdInUse:
            return True
        except StoreUnavailable:
            return False
        pytest.fail("registered")

    eventually(is_refused, "the refusal")
    node = other.get("/brokers/ids/1")
    assert node is not None
    assert (node.czxid, node.owner) == (epoch, other.session_id)
    assert SessionFile(tmp_path / "first").read()[0] == mine, "a record that was valid"


def test_successor_controller_is_not_touched_by_a_restart(
    ready: Connect, abandoned: Callable[..., int], tmp_path: Path
) -> None:
    abandoned(tmp_path, {})
    successor = ready()
    successor.create(paths.CONTROLLER, codecs.encode_controller(2, 0), ephemeral=True)
    registration(ready(), tmp_path).register()
    node = successor.get(paths.CONTROLLER)
    assert node is not None
    assert node.owner == successor.session_id


def test_new_session_registers_under_new_epoch(ready: Connect, tmp_path: Path) -> None:
    client = ready()
    keeper = registration(client, tmp_path)
    first = keeper.register()
    assert keeper.register() == first
    client.delete("/brokers/ids/1")
    assert keeper.register() > first


def test_next_incarnation_learns_the_epoch_of_the_last_one(ready: Connect, tmp_path: Path) -> None:
    client = ready()
    first = registration(client, tmp_path)
    epoch = first.register()
    assert first.epoch_before is None
    client.delete("/brokers/ids/1")
    epoch = first.register()
    assert first.epoch_before is None, "the same process came back: what it left is its own"
    client.close()
    second = registration(ready(), tmp_path)
    assert second.register() > epoch
    assert second.epoch_before == epoch


def lose_answers(client: ZkClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the client writes lands, and nobody hears of it."""
    multi = client.multi

    def lost(operations: Sequence[Operation]) -> list[int]:
        multi(operations)
        raise SessionExpired("the session ended before the answer came")

    monkeypatch.setattr(client, "multi", lost)


def test_attempt_that_landed_unseen_is_none_that_the_folder_was_left_under(
    ready: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer is lost, and then its session: the next one must not take it for somebody's who used the folder."""
    client = ready()
    epoch = registration(client, tmp_path).register()
    client.close()
    client = ready()
    keeper = registration(client, tmp_path)
    lose_answers(client, monkeypatch)
    with pytest.raises(SessionExpired):
        keeper.register()
    trace = client.get(paths.registration(1))
    assert trace is not None
    assert trace.mzxid > epoch, "nothing had landed: the test proves nothing"
    monkeypatch.setattr(keeper, "_client", ready())
    assert keeper.register() > trace.mzxid
    assert keeper.epoch_before == epoch


def test_registration_that_nobody_saw_is_known_once_the_next_one_is_tried(
    ready: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ZooKeeper's log has it, so the broker's event log has to name it, too."""
    client = ready()
    keeper = registration(client, tmp_path)
    lose_answers(client, monkeypatch)
    with pytest.raises(SessionExpired):
        keeper.register()
    landed = client.get(paths.broker_id(1))
    assert landed is not None
    assert keeper.epochs == []
    other = ready()
    monkeypatch.setattr(keeper, "_client", other)
    second = keeper.register()
    assert keeper.epochs == [landed.czxid, second]
    other.delete(paths.broker_id(1))
    third = keeper.register()
    assert keeper.epochs == [landed.czxid, second, third]


def test_withdrawn_registration_is_gone_at_once(ready: Connect, tmp_path: Path) -> None:
    client, other = ready(session_timeout_ms=30_000), ready()
    first = registration(client, tmp_path)
    first.register()
    first.withdraw()
    assert other.get(paths.broker_id(1)) is None
    client.close()


def test_refused_broker_leaves_no_trace(ready: Connect, tmp_path: Path) -> None:
    client = ready()
    epoch = registration(client, tmp_path / "first").register()
    with pytest.raises(BrokerIdInUse):
        registration(ready(session_timeout_ms=1500), tmp_path / "second").register()
    trace = client.get(paths.registration(1))
    assert trace is not None
    assert trace.mzxid == epoch


def test_lost_trace_is_made_anew_and_nothing_is_known(ready: Connect, tmp_path: Path) -> None:
    client = ready()
    registration(client, tmp_path).register()
    client.close()
    client = ready()
    client.delete_recursive("/highwater")
    second = registration(client, tmp_path)
    epoch = second.register()
    assert second.epoch_before is None
    trace = client.get(paths.registration(1))
    assert trace is not None
    assert trace.mzxid == epoch


def test_cluster_id_is_made_once(ready: Connect) -> None:
    made = cluster_id(ready())
    assert cluster_id(ready()) == made
    assert len(made) == 22


def test_generated_broker_ids_differ_and_start_above_reserved(ready: Connect) -> None:
    ids = [generate_broker_id(ready()) for _ in range(2)]
    assert ids == sorted(set(ids))
    assert ids[0] > 1000
