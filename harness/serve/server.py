"""The server's life: bound before it says so, ended by SIGINT or SIGTERM without a word.

Must not know what is served.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from starlette.types import ASGIApp


class CannotListen(Exception):
    """The address cannot be bound; the text says why."""


class _Server(uvicorn.Server):
    """Ends by `should_exit` alone; uvicorn raises a signal again that it took, and the process would end by it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take none."""
        yield


def serve(app: ASGIApp, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve until a signal. port: 0 picks one. ready: told the address once it accepts. Raises CannotListen."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise CannotListen(f"{host}:{port}: {error.strerror or error}") from None
    except UnicodeError as error:
        # Of what can be no name of a host: a label is empty, or longer than 63 characters.
        raise CannotListen(f"{host}:{port}: {error.__cause__ or error}") from None
    with listening:
        shown = f"[{host}]" if ":" in host else host
        server = _Server(
            uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,
                lifespan="off",
                ws="none",
                server_header=False,
                timeout_graceful_shutdown=2,
            )
        )

        def end(_number: int, _frame: FrameType | None) -> None:
            server.should_exit = True

        before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            ready(f"http://{shown}:{listening.getsockname()[1]}/")
            server.run(sockets=[listening])
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
