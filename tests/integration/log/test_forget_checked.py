"""Bytes that were good when they were written are checked again once the log forgets which were checked."""

from __future__ import annotations

from functools import partial

import pytest

from broker.model.log_errors import CorruptLog
from tests.property.log.log_tools import TP, Clock, batch, fetch, folder, open_log, open_store

pytestmark = pytest.mark.guarantee("L6")


@pytest.mark.parametrize("position", [70, 700])
def test_byte_flipped_under_an_open_log_is_found_by_the_next_read_once_the_log_forgets_what_it_checked(
    position: int,
) -> None:
    with folder() as path:
        store = open_store(path, Clock())
        log = open_log(store)
        for value in range(20):
            log.append_as_leader(batch(value), 1)
            log.write()
        segment = log.segment_base_offsets[-1] if position < 100 else 0
        with open(f"{path}/{TP}/{segment:020d}.log", "r+b") as file:
            position = min(position, file.seek(0, 2) - 1)
            file.seek(position)
            byte = file.read(1)
            file.seek(position)
            file.write(bytes([byte[0] ^ 1]))
        for offset in range(log.staged_end_offset):
            fetch(log, offset)
        log.forget_checked()
        with pytest.raises(CorruptLog, match="CRC32C"):
            list(map(partial(fetch, log, max_bytes=150), range(log.staged_end_offset)))
        store.close(clean=False)
