"""How a cold message's field is declared: type, versions, default, tag.

Only builds the description (`Spec`) that `schema` compiles; reads and writes no byte. Each function returns what the
dataclass attribute is typed as, so that mypy sees plain types; what it returns at run time is a dataclass field.
Source: Kafka's message JSON (clients/src/main/resources/common/message/README.md).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

_T = TypeVar("_T")
SPEC: Final = "wire"
VERSION_MAX: Final = 32767
OWN_TAG: Final = 10_000
"""Of fields that highwater adds to Kafka's messages, one to a struct; Kafka passes over tags that it does not know."""


class Versions(NamedTuple):
    """Closed range; an empty one has first > last."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


NEVER: Final = Versions(1, 0)


def parse_versions(text: str) -> Versions:
    """`3+`, `1-4`, `2`, `none`."""
    if text == "none":
        return NEVER
    if text.endswith("+"):
        return Versions(int(text[:-1]), VERSION_MAX)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))


class Spec(NamedTuple):
    """One field. kind: a primitive's name or `struct`; element: the struct class, None for primitives."""

    kind: str
    versions: Versions
    nullable: Versions
    tag: int | None
    tagged: Versions
    ignorable: bool
    is_array: bool
    element: type[Any] | None


def _declare(
    kind: str,
    versions: str,
    default: object = None,
    *,
    factory: Callable[[], object] | None = None,
    nullable: str = "none",
    tag: int | None = None,
    tagged: str = "none",
    ignorable: bool = False,
    is_array: bool = False,
    element: type[Any] | None = None,
) -> Any:
    spec = Spec(
        kind,
        parse_versions(versions),
        parse_versions(nullable),
        tag,
        parse_versions(tagged),
        ignorable,
        is_array,
        element,
    )
    if factory is not None:
        return dataclasses.field(default_factory=factory, metadata={SPEC: spec})
    return dataclasses.field(default=default, metadata={SPEC: spec})


def boolean(
    versions: str,
    default: bool = False,
    *,
    tag: int | None = None,
    tagged: str = "none",
    ignorable: bool = False,
) -> bool:
    return _declare("boolean", versions, default, tag=tag, tagged=tagged, ignorable=ignorable)  # type: ignore[no-any-return]


def _integer(kind: str) -> Callable[..., int]:
    def declare(
        versions: str,
        default: int = 0,
        *,
        tag: int | None = None,
        tagged: str = "none",
        ignorable: bool = False,
    ) -> int:
        return _declare(kind, versions, default, tag=tag, tagged=tagged, ignorable=ignorable)  # type: ignore[no-any-return]

    return declare


int8 = _integer("int8")
int16 = _integer("int16")
int32 = _integer("int32")
int64 = _integer("int64")


def float64(versions: str, *, ignorable: bool = False) -> float:
    return _declare("float64", versions, 0.0, ignorable=ignorable)  # type: ignore[no-any-return]


def string(versions: str, default: str = "", *, ignorable: bool = False) -> str:
    return _declare("string", versions, default, ignorable=ignorable)  # type: ignore[no-any-return]


def nullable_string(
    versions: str, default: str | None = None, *, nullable: str = "0+", ignorable: bool = False
) -> str | None:
    return _declare("string", versions, default, nullable=nullable, ignorable=ignorable)  # type: ignore[no-any-return]


def byte_string(versions: str, *, ignorable: bool = False) -> bytes:
    """Bytes that the protocol hands on unread; copied out of the frame, which may be reused."""
    return _declare("bytes", versions, b"", ignorable=ignorable)  # type: ignore[no-any-return]


def nullable_byte_string(versions: str, *, nullable: str = "0+", ignorable: bool = False) -> bytes | None:
    return _declare("bytes", versions, nullable=nullable, ignorable=ignorable)  # type: ignore[no-any-return]


def uuid(versions: str, *, tag: int | None = None, tagged: str = "none", ignorable: bool = False) -> str:
    return _declare("uuid", versions, "", tag=tag, tagged=tagged, ignorable=ignorable)  # type: ignore[no-any-return]


def array(
    element: type[_T],
    versions: str,
    *,
    tag: int | None = None,
    tagged: str = "none",
    ignorable: bool = False,
) -> list[_T]:
    """Array of structs, empty by default."""
    return _declare(  # type: ignore[no-any-return]
        "struct",
        versions,
        factory=list,
        tag=tag,
        tagged=tagged,
        ignorable=ignorable,
        is_array=True,
        element=element,
    )


def nullable_array(
    element: type[_T], versions: str, *, nullable: str = "0+", null_default: bool = False, ignorable: bool = False
) -> list[_T] | None:
    """Array of structs or null; empty by default unless null_default."""
    return _declare(  # type: ignore[no-any-return]
        "struct",
        versions,
        factory=None if null_default else list,
        nullable=nullable,
        ignorable=ignorable,
        is_array=True,
        element=element,
    )


def int32_array(versions: str, *, ignorable: bool = False) -> list[int]:
    return _declare("int32", versions, factory=list, ignorable=ignorable, is_array=True)  # type: ignore[no-any-return]


def int64_array(versions: str, *, ignorable: bool = False) -> list[int]:
    return _declare("int64", versions, factory=list, ignorable=ignorable, is_array=True)  # type: ignore[no-any-return]


def string_array(versions: str, *, ignorable: bool = False) -> list[str]:
    return _declare("string", versions, factory=list, ignorable=ignorable, is_array=True)  # type: ignore[no-any-return]


def nullable_string_array(versions: str, *, nullable: str = "0+") -> list[str] | None:
    """Array of strings or null, null by default."""
    return _declare("string", versions, nullable=nullable, is_array=True)  # type: ignore[no-any-return]


def nullable_int32_array(versions: str, *, nullable: str = "0+") -> list[int] | None:
    """Array of numbers or null, null by default."""
    return _declare("int32", versions, nullable=nullable, is_array=True)  # type: ignore[no-any-return]
