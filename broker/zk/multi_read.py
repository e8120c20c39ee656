"""Many znodes by one request of ZooKeeper (multiRead, since 3.6), which kazoo does not have.

kazoo carries a request by its type, `serialize` and `deserialize`, whatever it is. A hundred znodes that are read one
by one cost it ten milliseconds of processor, in which nobody leads; so they cost less than one. Each znode has an
outcome of its own.
Source: org.apache.zookeeper.MultiOperationRecord, MultiResponse, ZooDefs.OpCode.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from kazoo import exceptions as kazoo_errors
from kazoo.protocol.states import ZnodeStat

_GET_DATA: Final = 4
_ERROR: Final = -1
_NO_NODE: Final = -101
_HEADER: Final = struct.Struct(">i?i")
_NUMBER: Final = struct.Struct(">i")
_STAT: Final = struct.Struct(">qqqqiiiqiiq")
_END: Final = _HEADER.pack(_ERROR, True, -1)
_NO_WATCH: Final = b"\0"

Found = tuple[bytes, ZnodeStat] | None
"""Data and stat of a znode; None where it does not exist."""


class UnreadableResponse(Exception):
    """What came is no response to a multiRead: the server is older."""


@dataclass(frozen=True, slots=True)
class MultiRead:
    """A request as kazoo takes it. paths: from ZooKeeper's root on."""

    type: ClassVar[int] = 22
    paths: Sequence[str]

    def serialize(self) -> bytes:
        """The request's bytes behind its type."""
        parts = bytearray()
        for path in self.paths:
            name = path.encode()
            parts += _HEADER.pack(_GET_DATA, False, -1) + _NUMBER.pack(len(name)) + name + _NO_WATCH
        return bytes(parts + _END)

    def deserialize(self, buffer: bytes, offset: int) -> list[Found]:
        """In the order of the paths. Raises UnreadableResponse, or kazoo's error of a znode that may not be read."""
        found: list[Found] = []
        try:
            while True:
                type_, done, _ = _HEADER.unpack_from(buffer, offset)
                offset += _HEADER.size
                if done:
                    break
                if type_ == _ERROR:
                    (code,) = _NUMBER.unpack_from(buffer, offset)
                    offset += _NUMBER.size
                    if code != _NO_NODE:
                        raise kazoo_errors.EXCEPTIONS[code]()
                    found.append(None)
                    continue
                (length,) = _NUMBER.unpack_from(buffer, offset)
                offset += _NUMBER.size
                data = bytes(buffer[offset : offset + max(length, 0)])
                offset += max(length, 0)
                found.append((data, ZnodeStat._make(_STAT.unpack_from(buffer, offset))))
                offset += _STAT.size
        except struct.error as short:
            raise UnreadableResponse(str(short)) from None
        if len(found) != len(self.paths):
            raise UnreadableResponse(f"{len(found)} results for {len(self.paths)} znodes")
        return found
