"""What goes wrong with a frame on its way: each mutation takes a whole request and leaves bytes to be sent instead.

Pure: by a Random alone. A frame begins with its length, 4 bytes; then API key, version, correlation id, client id.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from broker.wire.api import ApiKey
from broker.wire.primitives import encode_uvarint

_HEAD: Final = 12
"""Length, API key, version, correlation id."""
_SIZES: Final = (-1, 0, 1, 0x7FFFFFFF, -0x80000000, 0x7FFFFFF0, 104857600, 104857601, 0x00FFFFFF, 0x10000)
_VARINTS: Final = (
    *map(encode_uvarint, (0, 1, 2, 127, 128, 16384, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)),
    b"\xff\xff\xff\xff\x7f",  # more than 32 bits
    b"\x80\x80\x80\x80\x00",  # zero, at length
)

Mutation = Callable[[Random, bytearray, bytes], bytearray]
"""(random, frame to change, another whole frame) → bytes."""


def _relength(frame: bytearray) -> bytearray:
    """The length in front says how many bytes follow."""
    struct.pack_into(">i", frame, 0, len(frame) - 4)
    return frame


def _place(rng: Random, frame: bytearray, room: int = 1) -> int:
    """Somewhere behind the correlation id, with that many bytes from there on if the frame has them."""
    return rng.randrange(min(_HEAD, len(frame) - room), max(_HEAD, len(frame) - room) + 1) if len(frame) > room else 0


def flip_bits(rng: Random, frame: bytearray, _: bytes) -> bytearray:
    for _index in range(rng.choice((1, 1, 2, 5, 20))):
        frame[rng.randrange(4, len(frame))] ^= 1 << rng.randrange(8)
    return frame


def set_bytes(rng: Random, frame: bytearray, _: bytes) -> bytearray:
    """A run of zeros or ones: nulls, empty and endless things."""
    place, run = _place(rng, frame), rng.choice((1, 2, 4, 8))
    frame[place : place + run] = rng.choice((b"\0", b"\xff", b"\x7f", b"\x80"))[:1] * len(frame[place : place + run])
    return frame


def lie_in_size(rng: Random, frame: bytearray, _: bytes) -> bytearray:
    """A length or a count of four or two bytes that has nothing to do with what follows."""
    if rng.random() < 0.5 and len(frame) >= _HEAD + 4:
        struct.pack_into(">i", frame, _place(rng, frame, 4), rng.choice(_SIZES))
    elif len(frame) >= _HEAD + 2:
        struct.pack_into(">h", frame, _place(rng, frame, 2), rng.choice((-1, 0, 1, 0x7FFF, -0x8000)))
    return frame


def lie_in_varint(rng: Random, frame: bytearray, _: bytes) -> bytearray:
    place = _place(rng, frame)
    frame[place : place + 1] = rng.choice(_VARINTS)
    return _relength(frame)


def endless_varint(rng: Random, frame: bytearray, _: bytes) -> bytearray:
    place = _place(rng, frame)
    frame[place:place] = b"\xff" * rng.choice((5, 10, 100))
    return _relength(frame)


def truncate(rng: Random, frame: bytearray, _: bytes) -> bytearray:
    """The length is true; the request ends early."""
    return _relength(frame[: rng.randrange(4, len(frame))])


def extend(rng: Random, frame: bytearray, _: bytes) -> bytearray:
    return _relength(frame + rng.randbytes(rng.choice((1, 4, 300))))


def half_sent(rng: Random, frame: bytearray, _: bytes) -> bytearray:
    """The length in front is the whole request's; the rest does not come."""
    return frame[: rng.randrange(1, len(frame))]


def wrong_frame_size(rng: Random, frame: bytearray, _: bytes) -> bytearray:
    size = rng.choice((*_SIZES, len(frame) - 5, len(frame) - 3, len(frame) // 2))
    struct.pack_into(">i", frame, 0, size)
    return frame


def other_version(rng: Random, frame: bytearray, _: bytes) -> bytearray:
    """The body of one version under the number of another."""
    (version,) = struct.unpack_from(">h", frame, 6)
    near = max(-0x8000, min(0x7FFF, version + rng.choice((-2, -1, 1, 2))))
    struct.pack_into(">h", frame, 6, rng.choice((near, near, near, 0, -1, 0x7FFF)))
    return frame


def other_api(rng: Random, frame: bytearray, _: bytes) -> bytearray:
    struct.pack_into(">h", frame, 4, rng.choice((*_TAME_KEYS, -1, 999, 0x7FFF)))
    return frame


def cut_out(rng: Random, frame: bytearray, _: bytes) -> bytearray:
    place = _place(rng, frame)
    del frame[place : place + rng.choice((1, 2, 4, 16))]
    return _relength(frame)


def repeat(rng: Random, frame: bytearray, _: bytes) -> bytearray:
    """A part comes again, often: more elements than the count says."""
    place = _place(rng, frame)
    part = frame[place : place + rng.choice((1, 4, 30))]
    frame[place:place] = part * rng.choice((1, 3, 100))
    return _relength(frame)


def out_of_order(rng: Random, frame: bytearray, _: bytes) -> bytearray:
    """Two neighbouring fields change places."""
    first, size = _place(rng, frame), rng.choice((1, 2, 4, 8, 20))
    middle, end = first + size, first + 2 * size
    frame[first:end] = frame[middle:end] + frame[first:middle]
    return _relength(frame)


def splice(rng: Random, frame: bytearray, other: bytes) -> bytearray:
    """The beginning of one request and the end of another."""
    return _relength(frame[: _place(rng, frame)] + other[rng.randrange(min(_HEAD, len(other)), len(other)) :])


def huge_string(rng: Random, frame: bytearray, _: bytes) -> bytearray:
    """Where something begins, a string that long instead, in either form of a length."""
    size = rng.choice((32767, 40_000, 300_000))
    place = _place(rng, frame)
    length = encode_uvarint(size + 1) if rng.random() < 0.5 else struct.pack(">h", min(size, 32767))
    frame[place:place] = length + rng.choice((b"a", b"\xff", b"\0", b"%")) * size
    return _relength(frame)


def tagged_fields(rng: Random, frame: bytearray, _: bytes) -> bytearray:
    """At the end, or anywhere: tags that nobody knows, that come twice, in falling order, or by the million."""
    tags = [rng.choice((0, 1, 2, 5, 10_000, 0x7FFFFFFF)) for _ in range(rng.choice((1, 2, 5, 1500)))]
    count = rng.choice((len(tags), len(tags), len(tags) + 1, 0xFFFFFFF))
    section = bytearray(encode_uvarint(count))
    for tag in tags:
        data = rng.randbytes(rng.choice((0, 1, 9)))
        section += encode_uvarint(tag) + encode_uvarint(rng.choice((len(data), len(data), 0x7FFFFFFF))) + data
    if rng.random() < 0.5:
        frame[-1:] = section
    else:
        place = _place(rng, frame)
        frame[place : place + 1] = section
    return _relength(frame)


def noise(rng: Random, frame: bytearray, _: bytes) -> bytearray:
    """The header, and anything behind it."""
    return _relength(frame[:_HEAD] + b"\xff\xff" + rng.randbytes(rng.choice((0, 1, 10, 100, 2000))))


_TAME_KEYS: Final = tuple(
    int(api)
    for api in ApiKey
    if api not in (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN)
)
"""Those that tell a broker nothing about its cluster."""

MUTATIONS: Final[Mapping[str, tuple[Mutation, float]]] = {
    "flip bits": (flip_bits, 6),
    "set bytes": (set_bytes, 4),
    "lie in a size": (lie_in_size, 6),
    "lie in a varint": (lie_in_varint, 4),
    "endless varint": (endless_varint, 1),
    "truncate": (truncate, 4),
    "extend": (extend, 2),
    "half sent": (half_sent, 1),
    "wrong frame size": (wrong_frame_size, 1),
    "other version": (other_version, 3),
    "other API": (other_api, 2),
    "cut out": (cut_out, 4),
    "repeat": (repeat, 3),
    "out of order": (out_of_order, 3),
    "splice": (splice, 3),
    "huge string": (huge_string, 0.5),
    "tagged fields": (tagged_fields, 3),
    "noise": (noise, 1),
}
"""By name: what it does, and how often it comes."""
_NAMES: Final = list(MUTATIONS)
_WEIGHTS: Final = [weight for _, weight in MUTATIONS.values()]


def mutate(rng: Random, frame: bytes, other: bytes) -> tuple[str, bytes]:
    """One mutation drawn at random, with its name; other: a frame to take bytes from."""
    (name,) = rng.choices(_NAMES, _WEIGHTS)
    return name, bytes(MUTATIONS[name][0](rng, bytearray(frame), other))
