"""Calls of a client's library that may never come back, and take no limit of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable


def in_time(call: Callable[[], None], limit_s: float) -> bool:
    """Whether the call has come back; raises what it raises. One that has not goes on, and nobody waits for it."""
    failed: list[BaseException] = []

    def work() -> None:
        try:
            call()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, name="client-call", daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        return False
    if failed:
        raise failed[0]
    return True
