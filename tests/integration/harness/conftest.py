from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.clients.connection import Address
from harness.clients.router import Cluster
from tests.integration.harness.fake_broker import FakeBroker


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    fake = FakeBroker()
    yield fake
    fake.close()


@pytest.fixture
def cluster(broker: FakeBroker) -> Cluster:
    return Cluster("hw", {1: Address("127.0.0.1", broker.port)}, {1: "n1"})
