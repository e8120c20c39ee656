"""The engine behind the cold messages: compiles declared fields into a plan per version, and runs it.

A message is a dataclass whose attributes are declared with `fields`. A field outside its versions reads as its
default; to write one that is neither at its default nor ignorable is a ValueError, as in Kafka's own code, because
dropping it silently would change what the request means. Unknown tagged fields are skipped.
A plan joins neighbouring fixed-width fields into one `struct` call.
Messages are slotted but not frozen: a decode builds one object per element, and freezing triples its cost.
Source: KIP-482; org.apache.kafka.message.MessageDataGenerator.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, ClassVar, Final, Generic, NamedTuple, Self, TypeVar, cast

from broker.wire.api import BETWEEN_BROKERS, FLEXIBLE_FROM, SUPPORTED, ApiKey
from broker.wire.fields import SPEC, Spec
from broker.wire.primitives import ANY_NUMBER, ELEMENTS_MAX, STRING_BYTES_MAX, MalformedFrame, Reader, Writer

_FORMAT: Final = {"boolean": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "float64": "d"}

BROKERS_ELEMENTS_MAX: Final = 2_000_000
"""Of a broker's: a controller may name all partitions of a cluster, with their replicas."""
_FOR_PEOPLE: Final = ".error_message"
_UTF8_BYTES_MAX: Final = 4
"""Of one character."""

_T = TypeVar("_T")
_ReadValue = Callable[[Reader], Any]
_WriteValue = Callable[[Writer, Any], None]
_ReadStep = Callable[[Reader, dict[str, Any]], None]


class Struct:
    """Base of everything that is declared with `fields`."""

    __slots__ = ()


class Message(Struct):
    """A request's or a response's body."""

    __slots__ = ()
    API: ClassVar[ApiKey]

    @classmethod
    def decode(cls, version: int, data: memoryview | bytes | bytearray, *, exact: bool = False) -> Self:
        """The message at the start of `data`; raises MalformedFrame, or ValueError for a version not offered.

        Bytes after it are ignored, as Kafka's brokers do: librdkafka leaves three behind a flexible Metadata request
        for all topics. exact: they are malformed.
        """
        reader = Reader(data, 0, cls.elements_max())
        message: Self = _message_codec(cls, version).read(reader)
        if exact:
            reader.expect_end(cls.__name__)
        return message

    @classmethod
    def elements_max(cls) -> int:
        """How many elements all arrays of a body may have together."""
        if not cls.__name__.endswith("Request"):
            return ANY_NUMBER
        return BROKERS_ELEMENTS_MAX if cls.API in BETWEEN_BROKERS else ELEMENTS_MAX

    def encode(self, version: int) -> bytes:
        """The body's bytes; raises ValueError when a value cannot be said in this version."""
        writer = Writer()
        try:
            _message_codec(type(self), version).write(writer, self)
        except struct.error as error:
            raise ValueError(f"{self!r}: a number is out of its field's range: {error}") from error
        return bytes(writer.buffer)


class Elements(Generic[_T]):
    """An array of a message that is encoded a few elements at a time, where all of them would take a turn too long."""

    __slots__ = ("_codec", "_count", "_writer")

    def __init__(self, element: type[_T], api: ApiKey, version: int) -> None:
        self._codec = struct_codec(element, version, version >= FLEXIBLE_FROM[api])
        self._writer = Writer()
        self._count = 0

    def add(self, element: _T) -> None:
        """Encode it behind the others."""
        self._codec.write(self._writer, element)
        self._count += 1

    def as_list(self) -> list[_T]:
        """To be put into a message in place of a list; the message can only be encoded then."""
        return cast(list[_T], self)

    def write(self, writer: Writer, flexible: bool) -> None:
        """The array."""
        writer.length(self._count, flexible, wide=True)
        writer.buffer += self._writer.buffer


class Codec(NamedTuple):
    """Reads and writes one value; size_min: bytes that the shortest value takes."""

    read: _ReadValue
    write: _WriteValue
    size_min: int


class _Step(NamedTuple):
    """Reads one or several attributes into a dict; writes them from an object."""

    read: _ReadStep
    write: _WriteValue
    size_min: int


def _message_codec(cls: type[Message], version: int) -> Codec:
    first, last = SUPPORTED[cls.API]
    if not first <= version <= last:
        raise ValueError(f"{cls.__name__}: version {version} is not one of {first}-{last}")
    return struct_codec(cls, version, version >= FLEXIBLE_FROM[cls.API])


_codecs: dict[tuple[type[Any], int, bool], Codec] = {}


def struct_codec(cls: type[Any], version: int, flexible: bool) -> Codec:
    """The compiled codec of one class in one version; compiled once. cls: declared with `fields`."""
    key = (cls, version, flexible)
    codec = _codecs.get(key)
    if codec is None:
        codec = _codecs[key] = _compile(cls, version, flexible)
    return codec


def _compile(cls: type[Any], version: int, flexible: bool) -> Codec:
    plain: list[tuple[str, Spec]] = []
    tagged: list[tuple[str, Spec]] = []
    absent: list[tuple[str, object]] = []
    for field in dataclasses.fields(cls):
        spec: Spec = field.metadata[SPEC]
        if version not in spec.versions:
            if not spec.ignorable:
                absent.append((field.name, _default_of(field)))
        elif version in spec.tagged:
            tagged.append((field.name, spec))
        else:
            plain.append((field.name, spec))

    steps: list[_Step] = []
    index = 0
    while index < len(plain):
        end = index
        while end < len(plain) and plain[end][1].kind in _FORMAT and not plain[end][1].is_array:
            end += 1
        if end > index:
            steps.append(_fixed_step(cls, plain[index:end]))
            index = end
        else:
            name, spec = plain[index]
            steps.append(_single_step(name, _field_codec(cls, name, spec, version, flexible)))
            index += 1
    if flexible:
        steps.append(_tags_step(cls, tagged, version))
    elif tagged:
        raise AssertionError(f"{cls.__name__}: tagged field {tagged[0][0]} in the inflexible version {version}")
    reads = [step.read for step in steps]
    writes = [step.write for step in steps]

    def read(reader: Reader) -> Any:
        values: dict[str, Any] = {}
        for step in reads:
            step(reader, values)
        return cls(**values)

    def write(writer: Writer, value: Any) -> None:
        for name, default in absent:
            if getattr(value, name) != default:
                field_value = getattr(value, name)
                raise ValueError(f"{cls.__name__}.{name} = {field_value!r} cannot be encoded in version {version}")
        for step in writes:
            step(writer, value)

    return Codec(read, write, sum(step.size_min for step in steps))


def _default_of(field: dataclasses.Field[Any]) -> object:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _fixed_step(cls: type[Any], run: Sequence[tuple[str, Spec]]) -> _Step:
    """Neighbouring numbers as one layout."""
    layout = struct.Struct(">" + "".join(_FORMAT[spec.kind] for _, spec in run))
    names = tuple(name for name, _ in run)
    label = f"{cls.__name__}.{names[0]}" if len(names) == 1 else f"{cls.__name__}.{names[0]}…{names[-1]}"
    get = attrgetter(*names)

    def read(reader: Reader, values: dict[str, Any]) -> None:
        values.update(zip(names, reader.unpack(layout, label), strict=True))

    if len(names) == 1:

        def write(writer: Writer, value: Any) -> None:
            writer.buffer += layout.pack(get(value))
    else:

        def write(writer: Writer, value: Any) -> None:
            writer.buffer += layout.pack(*get(value))

    return _Step(read, write, layout.size)


def _single_step(name: str, codec: Codec) -> _Step:
    read_value, write_value, size_min = codec

    def read(reader: Reader, values: dict[str, Any]) -> None:
        values[name] = read_value(reader)

    def write(writer: Writer, value: Any) -> None:
        write_value(writer, getattr(value, name))

    return _Step(read, write, size_min)


def _field_codec(cls: type[Any], name: str, spec: Spec, version: int, flexible: bool) -> Codec:
    label = f"{cls.__name__}.{name}"
    nullable = version in spec.nullable
    if not spec.is_array:
        return _value_codec(label, spec, version, flexible, nullable)
    if spec.kind in _FORMAT:
        return _number_array_codec(label, spec.kind, flexible, nullable)
    element = _value_codec(label, spec, version, flexible, nullable=False)
    return _array_codec(label, element, flexible, nullable)


def _value_codec(label: str, spec: Spec, version: int, flexible: bool, nullable: bool) -> Codec:
    if spec.element is not None:
        return struct_codec(spec.element, version, flexible)
    match spec.kind:
        case "uuid":
            return Codec(lambda reader: reader.uuid(label), Writer.uuid, 16)
        case "string":
            size_min = 1 if flexible else 2
            if nullable:
                cut = _cut if label.endswith(_FOR_PEOPLE) else _as_it_is
                return Codec(
                    lambda reader: reader.nullable_string(label, flexible),
                    lambda writer, value: writer.nullable_string(cut(value), flexible),
                    size_min,
                )

            def write_string(writer: Writer, value: str | None) -> None:
                if value is None:
                    raise ValueError(f"{label}: null where a string is required")
                writer.string(value, flexible)

            return Codec(lambda reader: reader.string(label, flexible), write_string, size_min)
        case "bytes":
            return Codec(
                lambda reader: _read_bytes(reader, label, flexible, nullable),
                lambda writer, value: _write_bytes(writer, value, label, flexible, nullable),
                1 if flexible else 4,
            )
        case kind:
            layout = struct.Struct(">" + _FORMAT[kind])
            return Codec(
                lambda reader: reader.unpack(layout, label)[0],
                lambda writer, value: writer.raw(layout.pack(value)),
                layout.size,
            )


def _as_it_is(text: str | None) -> str | None:
    return text


def _cut(text: str | None) -> str | None:
    """A text for people quotes what a client sent, which may leave no room for the rest of the sentence."""
    if text is None or len(text) * _UTF8_BYTES_MAX <= STRING_BYTES_MAX:
        return text
    data = text.encode("utf-8")
    if len(data) <= STRING_BYTES_MAX:
        return text
    return data[: STRING_BYTES_MAX - _UTF8_BYTES_MAX].decode("utf-8", "ignore") + "…"


def _read_bytes(reader: Reader, label: str, flexible: bool, nullable: bool) -> bytes | None:
    start = reader.pos
    found = reader.nullable_bytes(label, flexible)
    if found is not None:
        return bytes(found)
    if not nullable:
        raise MalformedFrame(label, start, None, "null where bytes are required")
    return None


def _write_bytes(writer: Writer, value: bytes | None, label: str, flexible: bool, nullable: bool) -> None:
    if value is None and not nullable:
        raise ValueError(f"{label}: null where bytes are required")
    writer.nullable_bytes(value, flexible)


def _number_array_codec(label: str, kind: str, flexible: bool, nullable: bool) -> Codec:
    """An array of numbers as one layout, so that a long replica list costs one call."""
    code = _FORMAT[kind]
    size = struct.calcsize(">" + code)

    def read(reader: Reader) -> list[int] | None:
        if nullable:
            count = reader.nullable_count(label, flexible, size)
            if count < 0:
                return None
        else:
            count = reader.count(label, flexible, size)
        return list(struct.unpack(f">{count}{code}", reader.take(count * size, label)))

    def write(writer: Writer, values: Sequence[int] | None) -> None:
        if values is None:
            if not nullable:
                raise ValueError(f"{label}: null where an array is required")
            writer.length(-1, flexible, wide=True)
            return
        writer.length(len(values), flexible, wide=True)
        writer.buffer += struct.pack(f">{len(values)}{code}", *values)

    return Codec(read, write, 1 if flexible else 4)


def _array_codec(label: str, element: Codec, flexible: bool, nullable: bool) -> Codec:
    read_element, write_element, element_size_min = element

    def read(reader: Reader) -> list[Any] | None:
        if nullable:
            count = reader.nullable_count(label, flexible, element_size_min)
            if count < 0:
                return None
        else:
            count = reader.count(label, flexible, element_size_min)
        return [read_element(reader) for _ in range(count)]

    def write(writer: Writer, values: Sequence[Any] | Elements[Any] | None) -> None:
        if values is None:
            if not nullable:
                raise ValueError(f"{label}: null where an array is required")
            writer.length(-1, flexible, wide=True)
            return
        if isinstance(values, Elements):
            values.write(writer, flexible)
            return
        writer.length(len(values), flexible, wide=True)
        for value in values:
            write_element(writer, value)

    return Codec(read, write, 1 if flexible else 4)


def _tags_step(cls: type[Any], tagged: Sequence[tuple[str, Spec]], version: int) -> _Step:
    label = f"{cls.__name__} tags"
    known: dict[int, tuple[str, Codec]] = {}
    defaults: dict[int, object] = {}
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for name, spec in tagged:
        assert spec.tag is not None
        known[spec.tag] = (name, _field_codec(cls, name, spec, version, True))
        defaults[spec.tag] = _default_of(fields[name])
    in_order = sorted(known)

    def read(reader: Reader, values: dict[str, Any]) -> None:
        if not known:
            reader.skip_tags(label)
            return
        for tag, data in reader.tags(label):
            if tag in known:
                name, codec = known[tag]
                inner = Reader(data)
                values[name] = codec.read(inner)
                inner.expect_end(f"{cls.__name__}.{name}")

    def write(writer: Writer, value: Any) -> None:
        present: list[tuple[int, bytes | bytearray]] = []
        for tag in in_order:
            name, codec = known[tag]
            if getattr(value, name) != defaults[tag]:
                inner = Writer()
                codec.write(inner, getattr(value, name))
                present.append((tag, inner.buffer))
        writer.tags(present)

    return _Step(read, write, 1)
