"""An ensemble of somebody else's: how it is written for brokers, and what is said where nobody responds."""

from __future__ import annotations

import pytest

from harness.systems import coordination
from harness.systems.coordination import Coordination
from harness.systems.external_zookeeper import ExternalZooKeeper
from harness.systems.waiting import SystemFailed


def test_addresses_of_ipv6_keep_their_brackets() -> None:
    assert ExternalZooKeeper("[::1]:2181,zk1:2182/a", "demo").connect == "[::1]:2181,zk1:2182/a"


def test_ensemble_that_does_not_respond_is_named_as_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordination, "CONNECT_TIMEOUT_S", 0.5)
    reader = Coordination("127.0.0.1:1/highwater", "zk.example:2181")
    with pytest.raises(SystemFailed, match=r"no ZooKeeper responded at zk\.example:2181 within 0\.5 s: is it running"):
        reader.start()
    reader.stop()
