"""Which sockets of a process end first when it is killed: those with the highest descriptors.

Linux closes what a killed process had open from the highest number down to the lowest. New sockets get the lowest free
number, so a listening socket would be among the last, and the other brokers' links, which are there before most
clients, behind the clients' connections. Then a client that asks another broker who leads now, a fraction of a
millisecond after its own connection ended, could be told of the broker that is just ending; and a link that connects
again would be accepted, by the kernel, for a process that is gone. So the listening socket gets a number above all
others, and connections that say nothing, as links do, get one just below. Nothing depends on it but how soon others
know.
"""

from __future__ import annotations

import fcntl
import socket
from typing import Final

SILENT_CONNECTIONS_MAX: Final = 64
_LISTENERS_MAX: Final = 16
_ABOVE_MAX: Final = 16_384
"""The kernel keeps eight bytes for each number up to the highest."""


def first_silent(descriptor_limit: int) -> int | None:
    """The lowest number for connections that say nothing; None where there is no room below the limit."""
    base = min(descriptor_limit - _LISTENERS_MAX, _ABOVE_MAX) - SILENT_CONNECTIONS_MAX
    return base if base > SILENT_CONNECTIONS_MAX else None


def moved_up(sock: socket.socket, lowest: int, count: int) -> socket.socket | None:
    """The same connection under the lowest free one of these numbers; None where all are taken.

    The caller closes `sock`, and must have unregistered it before that: what is registered is the connection itself.
    """
    try:
        number = fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD_CLOEXEC, lowest)
    except OSError:
        return None
    moved = socket.socket(fileno=number)
    if number >= lowest + count:
        moved.close()
        return None
    moved.setblocking(False)
    return moved


def listening_above(sock: socket.socket, descriptor_limit: int) -> socket.socket:
    """A listening socket, under a number above those of silent connections if one is free; closes what it replaces."""
    base = first_silent(descriptor_limit)
    moved = None if base is None else moved_up(sock, base + SILENT_CONNECTIONS_MAX, _LISTENERS_MAX)
    if moved is None:
        return sock
    sock.close()
    return moved
