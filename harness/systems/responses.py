"""Whether a server responds to a request of the harness over TCP: a broker to ApiVersions, ZooKeeper to `srvr`."""

from __future__ import annotations

import socket
import struct

API_VERSIONS = 18
TIMEOUT_S = 1.0
MAX_RESPONSE_BYTES = 1 << 20


def broker_responds(host: str, port: int, timeout_s: float = TIMEOUT_S) -> bool:
    """True when ApiVersions (version 0) gets a response with the request's correlation id and no error."""
    correlation_id = 0x68770001
    client_id = b"highwater-ready"
    request = struct.pack(f">hhih{len(client_id)}s", API_VERSIONS, 0, correlation_id, len(client_id), client_id)
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as stream:
            stream.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", _exactly(stream, 4))
            if not 6 <= size <= MAX_RESPONSE_BYTES:
                return False
            correlation, error = struct.unpack(">ih", _exactly(stream, size)[:6])
    except OSError:
        return False
    return bool(correlation == correlation_id and error == 0)


def zookeeper_responds(host: str, port: int, timeout_s: float = TIMEOUT_S) -> bool:
    """True when the server reports that it serves: a member without a quorum reports otherwise."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as stream:
            stream.sendall(b"srvr")
            return b"Mode: " in stream.recv(4096)
    except OSError:
        return False


def _exactly(stream: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        chunk = stream.recv(count - len(received))
        if not chunk:
            raise ConnectionResetError("closed in the middle of a response")
        received += chunk
    return received
