"""A record of sessions that is damaged: the broker registers all the same, and ends no other session."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.core.controller.cluster_state import Broker, BrokerEndpoint
from broker.zk import paths
from broker.zk.client import ZkClient
from broker.zk.registration import BrokerIdInUse, Registration, prepare
from broker.zk.session_file import FILE_NAME, RecordedSession, SessionFile

pytestmark = pytest.mark.guarantee("C1")

Connect = Callable[..., ZkClient]
BROKER = Broker(1, -1, (BrokerEndpoint("PLAINTEXT", "10.0.0.1", 9092, "PLAINTEXT"),), "rack-a")


def _registration(client: ZkClient, folder: Path) -> Registration:
    return Registration(client, BROKER, SessionFile(folder), lambda: 1_700_000_000_000)


def _overwrite(file: Path, content: bytes) -> None:
    """In place, so that it is still the very file that the record names."""
    with file.open("r+b") as opened:
        opened.truncate()
        opened.write(content)


def _with_sessions(sessions: Any) -> Callable[[dict[str, Any]], bytes]:
    return lambda fields: json.dumps({**fields, "sessions": sessions}).encode()


DAMAGE: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "empty": lambda fields: b"",
    "not text": lambda fields: os.urandom(200),
    "zeros": lambda fields: bytes(200),
    "torn": lambda fields: json.dumps(fields).encode()[:-9],
    "a list": lambda fields: b"[]",
    "a number": lambda fields: b"7",
    "deep": lambda fields: b"[" * 100_000,
    "no sessions": lambda fields: json.dumps({"file": fields["file"]}).encode(),
    "sessions null": _with_sessions(None),
    "sessions a number": _with_sessions(3),
    "sessions a text": _with_sessions("abc"),
    "session a text": _with_sessions(["abc"]),
    "id null": _with_sessions([{"id": None, "password": "00"}]),
    "id a text": _with_sessions([{"id": "x", "password": "00"}]),
    "id infinite": _with_sessions([{"id": float("inf"), "password": "00"}]),
    "id beyond 64 bits": _with_sessions([{"id": 1 << 70, "password": "00" * 16}]),
    "password not hex": _with_sessions([{"id": 1, "password": "zz"}]),
    "password a number": _with_sessions([{"id": 1, "password": 5}]),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_register_over_a_damaged_record_succeeds_and_writes_it_anew(
    connect: Connect, tmp_path: Path, damage: Callable[[dict[str, Any]], bytes]
) -> None:
    SessionFile(tmp_path).write([RecordedSession(12345, b"\x01" * 16)])
    file = tmp_path / FILE_NAME
    _overwrite(file, damage(json.loads(file.read_bytes())))
    client = connect()
    prepare(client)
    epoch = _registration(client, tmp_path).register()
    node = client.get(paths.broker_id(1))
    assert node is not None
    assert (node.czxid, node.owner) == (epoch, client.session_id)
    assert [session.session_id for session in SessionFile(tmp_path).read()] == [client.session_id]


def test_register_with_a_damaged_password_ends_no_session(connect: Connect, tmp_path: Path) -> None:
    """The id is that of the session that owns the znode: the server refuses the rest, and the owner counts as live."""
    owner = connect(session_timeout_ms=20_000)
    prepare(owner)
    epoch = _registration(owner, tmp_path).register()
    (session,) = SessionFile(tmp_path).read()
    SessionFile(tmp_path).write([RecordedSession(session.session_id, bytes(len(session.password)))])
    with pytest.raises(BrokerIdInUse):
        _registration(connect(session_timeout_ms=1500), tmp_path).register()
    node = owner.get(paths.broker_id(1))
    assert node is not None
    assert (node.czxid, node.owner) == (epoch, session.session_id)


def test_read_of_randomly_damaged_records_never_raises(tmp_path: Path) -> None:
    file = tmp_path / FILE_NAME
    record = SessionFile(tmp_path)
    for seed in range(500):
        rng = random.Random(seed)
        record.write([RecordedSession(rng.randrange(1 << 62), rng.randbytes(16)) for _ in range(3)])
        data = bytearray(file.read_bytes())
        match rng.randrange(3):
            case 0:
                for _ in range(rng.choice((1, 1, 4))):
                    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            case 1:
                del data[rng.randrange(len(data)) :]
            case _:
                start = rng.randrange(len(data))
                data[start:start] = data[rng.randrange(len(data)) :][: rng.randrange(1, 40)]
        _overwrite(file, bytes(data))
        try:
            for session in record.read():
                assert isinstance(session, RecordedSession)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {bytes(data)!r}") from error


@pytest.mark.parametrize("in_the_way", ["", FILE_NAME, Path(FILE_NAME).with_suffix(".tmp").name])
def test_folder_that_fails_costs_the_record_not_the_registration(
    connect: Connect, tmp_path: Path, in_the_way: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "gone"
    if in_the_way:
        (folder / in_the_way).mkdir(parents=True)
    client = connect()
    prepare(client)
    registration = _registration(client, folder)
    epoch = registration.register()
    assert registration.register() == epoch
    node = client.get(paths.broker_id(1))
    assert node is not None
    assert node.owner == client.session_id
    assert "cannot be written" in caplog.text
