from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.clients.connection import Address
from harness.clients.router import Cluster
from harness.runs.store import RunStore, create
from harness.systems.highwater.kind import Highwater
from tests.integration.harness.checkers_stand_in import CHECKERS
from tests.integration.harness.fake_broker import FakeBroker
from tests.integration.harness.scripted_run import World


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    fake = FakeBroker()
    yield fake
    fake.close()


@pytest.fixture
def cluster(broker: FakeBroker) -> Cluster:
    return Cluster("hw", {1: Address("127.0.0.1", broker.port)}, {1: "n1"})


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Every run of the test runs over it."""
    made = World()
    monkeypatch.setattr("harness.runs.cluster.make_nodes", lambda *_args, **_options: made)
    monkeypatch.setattr(Highwater, "open", lambda _kind, _nodes, _plan: made)
    yield made
    made.broker.close()


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    """A recorded run of one line, to be judged."""
    run = create(tmp_path / "store", "demo")
    run.write_run({"schema": 1, "name": "demo", "finished": True, "aborted": None})
    run.history.write_text('{"type":"invoke","index":0}\n')
    return run


@pytest.fixture
def checkers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """Stands in for the package `checkers` in the child process."""
    folder = tmp_path / "fake" / "checkers"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "fake"))
    # Bytecode is taken for that of its source by second and size: a body of the same length, written within one second,
    # would not be run.
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    # `python -m` puts the current folder first.
    monkeypatch.chdir(tmp_path)

    def write(body: str) -> None:
        (folder / "__main__.py").write_text(CHECKERS.format(body=body))

    return write
