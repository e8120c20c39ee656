"""How an attempt to connect came out, once its socket is writable."""

from __future__ import annotations

import errno
import socket


def outcome(sock: socket.socket) -> tuple[int, bool]:
    """(errno, 0 when it is connected; whether it is connected to itself).

    A closed port in the ephemeral range of this host can be given to our own end (TCP simultaneous open): nobody
    listens there.
    """
    code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        return code, False
    try:
        return 0, sock.getsockname() == sock.getpeername()
    except OSError as error:
        # It was reset since the line above.
        return error.errno or errno.ENOTCONN, False
