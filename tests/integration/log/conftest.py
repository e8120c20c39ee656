"""Where a test's store lies, and a log in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.log.dumped_segment import BATCHES
from tests.property.log.log_tools import TP, Clock, append_values, open_store


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "data")


@pytest.fixture
def home(path: str) -> Path:
    """A folder with one segment of 60 batches of three records."""
    store = open_store(path, Clock(), {"index.interval.bytes": "500"})
    append_values(store, range(BATCHES), epoch=4, records=3)
    store.close(clean=True)
    return Path(path, str(TP))
