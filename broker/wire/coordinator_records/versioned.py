"""A key or a value that says in its first two bytes by which version it is to be read.

Source: org.apache.kafka.common.protocol.MessageUtil (toVersionPrefixedBytes); KIP-915 for flexible versions.
"""

from __future__ import annotations

import struct
from typing import ClassVar, Final, Self

from broker.wire.api import NEVER_FLEXIBLE
from broker.wire.primitives import MalformedFrame, Reader, Writer
from broker.wire.schema import Struct, struct_codec

VERSION_SIZE: Final = 2
_VERSION: Final = struct.Struct(">h")


class UnknownRecordVersion(Exception):
    """A record of a later Kafka, or none of a coordinator; what: the class that was to be read."""

    def __init__(self, what: str, version: int, known: str) -> None:
        super().__init__(f"{what}: version {version} is none of {known}")
        self.what = what
        self.version = version


class Versioned(Struct):
    """Base of keys and values. FIRST, LAST: versions that are read; WRITTEN: the one that `encode` chooses."""

    __slots__ = ()
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int]
    WRITTEN: ClassVar[int]
    FLEXIBLE: ClassVar[int] = NEVER_FLEXIBLE

    @classmethod
    def decode(cls, data: bytes | memoryview) -> Self:
        """What these bytes say; bytes behind it are ignored. Raises UnknownRecordVersion and MalformedFrame."""
        version = version_of(data)
        if not cls.FIRST <= version <= cls.LAST:
            raise UnknownRecordVersion(cls.__name__, version, f"{cls.FIRST}-{cls.LAST}")
        value: Self = struct_codec(cls, version, version >= cls.FLEXIBLE).read(Reader(data, VERSION_SIZE))
        return value

    def encode(self, version: int | None = None) -> bytes:
        """version: `WRITTEN` unless said. Raises ValueError for what that version cannot say.

        Its strings have 32,767 bytes at most, although a request may bring longer ones.
        """
        chosen = self.WRITTEN if version is None else version
        if not self.FIRST <= chosen <= self.LAST:
            raise ValueError(f"{type(self).__name__}: version {chosen} is none of {self.FIRST}-{self.LAST}")
        writer = Writer()
        try:
            writer.int16(chosen)
            struct_codec(type(self), chosen, chosen >= self.FLEXIBLE).write(writer, self)
        except struct.error as error:
            raise ValueError(f"{self!r}: a number is out of its field's range: {error}") from error
        return bytes(writer.buffer)


def version_of(data: bytes | memoryview) -> int:
    """Raises MalformedFrame where there are no two bytes."""
    if len(data) < VERSION_SIZE:
        raise MalformedFrame("version", 0, bytes(data), "needs 2 bytes, so many are left")
    version: int = _VERSION.unpack_from(data)[0]
    return version
