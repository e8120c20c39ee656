"""A metadata cache that knows one topic of one partition."""

from __future__ import annotations

import pytest

from broker.runtime.metadata.cache import MetadataCache
from broker.wire.errors import ErrorCode
from tests.support.metadata_updates import EPOCH, partition, update


@pytest.fixture
def forgotten() -> list[str]:
    return []


@pytest.fixture
def cache(forgotten: list[str]) -> MetadataCache:
    made = MetadataCache("cluster", "PLAINTEXT", lambda: EPOCH, lambda topic: {}, forgotten.append)
    assert made.update(update({"t": [partition(1, [1, 2])]})) is ErrorCode.NONE
    return made
