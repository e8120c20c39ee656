"""EDN, read and written: the notation in which Clojure programs, such as Jepsen, store data.

Strict: what is not EDN is an error that names the line, and so is a map that names a key twice. Of what Clojure's
printer writes beside EDN this reads hexadecimal numbers, namespaced maps and tagged elements of any tag (records,
`#object[…]`), which stay `Tagged`. Vectors and lists become lists, maps dicts; a list, dict or set that is a map's key
becomes a tuple. Source: github.com/edn-format/edn. Must not know what is stored in it. docs/adr/0022 says why it is
our own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

DEPTH_MAX = 200
"""How deep collections may nest: what a file says must not end the process."""
DIGITS_MAX = 1000


class EdnError(ValueError):
    """Not EDN. `line` counts from 1; the text says what is wrong, without the file's name."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line


class Keyword(str):
    """`:name`, equal to the text `name`."""

    __slots__ = ()


class Symbol(str):
    """A name that stands for itself, equal to its text."""

    __slots__ = ()


class Char(str):
    """One character."""

    __slots__ = ()


class EdnSet(list[object]):
    """The elements of a set, in the order in which they were written."""


@dataclass(frozen=True, slots=True)
class Tagged:
    """An element with a tag, which nothing here interprets."""

    tag: str
    value: object


@dataclass(frozen=True, slots=True)
class Form:
    """One element on the top level, and the line on which it begins."""

    value: object
    line: int


_TOKEN = re.compile(
    r"""(?P<space>(?:[\s,]+|;[^\n]*)+)
    |(?P<name>:[\w*!?$%&=<>.+|'-][\w*!?$%&=<>.+|'#:/-]*(?=[\s,;{}()\[\]"\\]|\Z))
    |(?P<int>[+-]?(?:0|[1-9][0-9]*)N?(?=[\s,;{}()\[\]"\\]|\Z))
    |(?P<open>\#?\{|\[|\()
    |(?P<close>[\])}])
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<discard>\#_)
    |(?P<symbolic>\#\#(?:Inf|-Inf|NaN)(?=[\s,;{}()\[\]"\\]|\Z))
    |(?P<nsmap>\#:[^\s,{}()\[\]"]+(?=\s*\{))
    |(?P<tag>\#[A-Za-z][^\s,{}()\[\]"]*)
    |(?P<char>\\(?:[A-Za-z][A-Za-z0-9]*|.))
    |(?P<atom>[^\s,;{}()\[\]"\\\#][^\s,;{}()\[\]"\\]*)""",
    re.VERBOSE | re.DOTALL,
)
_SPACE = re.compile(r"(?:[\s,]+|;[^\n]*)+")
_HEX = re.compile(r"[+-]?0[xX][0-9a-fA-F]+")
_FLOAT = re.compile(r"[+-]?(?:0|[1-9]\d*)(?:\.\d*)?(?:[eE][+-]?\d+)?M?")
_RATIO = re.compile(r"[+-]?\d+/[1-9]\d*")
_NAME = re.compile(r"[A-Za-z*!_?$%&=<>.+|'-][\w*!?$%&=<>.+|'#:-]*(?:/[\w*!?$%&=<>.+|'#:-]+)?|/")
_CONSTANTS: Mapping[str, object] = {
    "nil": None,
    "true": True,
    "false": False,
    "##Inf": math.inf,
    "##-Inf": -math.inf,
    "##NaN": math.nan,
}
_CHARS = {"newline": "\n", "return": "\r", "space": " ", "tab": "\t", "formfeed": "\f", "backspace": "\b"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|[0-7]{1,3}|.)", re.DOTALL)
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "b": "\b", "f": "\f", "\\": "\\", '"': '"'}
_CLOSES = {"[": "]", "(": ")", "{": "}", "#{": "}"}


def read_forms(text: str) -> Iterator[Form]:
    """The elements of a text, one after the other. Raises EdnError."""
    return _elements(text, 0, 1)


def read_elements(text: str) -> Iterator[Form]:
    """The elements of the one vector that a text consists of, each with its own line. Raises EdnError."""
    at = _first(text)
    line = 1 + text.count("\n", 0, at)
    if not is_vector(text):
        raise EdnError(line, f"found {text[at : at + 20]!r}, should be the [ of a vector")
    return _elements(text, at + 1, line, text[at])


def is_vector(text: str) -> bool:
    """Whether a vector, or a list, is what a text begins with."""
    return text.startswith(("[", "("), _first(text))


def _first(text: str) -> int:
    """Where the first element begins."""
    space = _SPACE.match(text)
    return 0 if space is None else space.end()


@dataclass(slots=True)
class _Open:
    """A collection, a tag or a discard that waits for what belongs to it; at: where it began."""

    kind: str
    at: int
    items: list[object]


class _Place:
    """On which line a place of the text is; cheap for places that come one after the other."""

    def __init__(self, text: str, at: int, line: int) -> None:
        self._text, self._at, self._line = text, at, line

    def line(self, at: int) -> int:
        """Counted from 1."""
        if at < self._at:
            return self._line - self._text.count("\n", at, self._at)
        self._line += self._text.count("\n", self._at, at)
        self._at = at
        return self._line


def _elements(text: str, at: int, line: int, within: str = "") -> Iterator[Form]:
    """Elements from a place on, up to the text's end, or to that of the vector that `within` opened there."""
    place = _Place(text, at, line)
    opened = [_Open(within, at, [])]
    match, kind, began = _TOKEN.match, "", at
    while (found := match(text, at)) is not None:
        at, kind, token = found.end(), str(found.lastgroup), found.group()
        if kind == "space":
            continue
        if len(opened) == 1:
            began = found.start()
        if kind in ("open", "discard", "tag", "nsmap"):
            if len(opened) > DEPTH_MAX:
                raise EdnError(place.line(began), f"collections nest more than {DEPTH_MAX} deep")
            opened.append(_Open(token, found.start(), []))
            continue
        if kind == "close":
            top = opened.pop()
            if token != _CLOSES.get(top.kind):
                raise EdnError(place.line(found.start()), _not_closing(token, top, place))
            if not opened:
                _nothing_behind(text, at, place)
                return
            value = _collection(top, place)
        else:
            value = _scalar(kind, token, place, found.start())
        for one in _finished(opened, value):
            yield Form(one, place.line(began))
    if at < len(text):
        where = (
            "the text ends within a string" if text[at] == '"' else f"found {text[at : at + 20]!r}, which is not EDN"
        )
        raise EdnError(place.line(at), where)
    if within or len(opened) > 1:
        top = opened[-1]
        opening = place.line(top.at)
        raise EdnError(place.line(at), f"the text ends within what {top.kind!r} on line {opening} began")


def _finished(opened: list[_Open], value: object) -> Iterator[object]:
    """Give a value to what waits for it; hands it back where that is the top level."""
    while (kind := opened[-1].kind) and kind[0] == "#" and kind != "#{":
        opened.pop()
        if kind == "#_":
            return
        if kind[1] == ":":
            assert isinstance(value, dict)
            value = {_in_namespace(kind[2:].removeprefix(":"), key): one for key, one in value.items()}
        else:
            value = Tagged(kind[1:], value)
    if len(opened) == 1:
        yield value
    else:
        opened[-1].items.append(value)


def _not_closing(token: str, top: _Open, place: _Place) -> str:
    if top.kind in _CLOSES:
        return f"found {token!r}, should be the {_CLOSES[top.kind]!r} of line {place.line(top.at)}"
    return (
        f"found {token!r} behind {top.kind}, should be an element"
        if top.kind
        else f"found {token!r}, which nothing opened"
    )


def _nothing_behind(text: str, at: int, place: _Place) -> None:
    space = _SPACE.match(text, at)
    behind = at if space is None else space.end()
    if behind < len(text):
        raise EdnError(place.line(behind), f"found {text[behind : behind + 20]!r} behind the vector's end")


def _collection(top: _Open, place: _Place) -> object:
    values = top.items
    if top.kind in ("[", "("):
        return values
    if top.kind == "#{":
        if len({(type(value), _key(value)) for value in values}) < len(values):
            raise EdnError(place.line(top.at), f"a set has an element twice: {to_edn(EdnSet(values))[:200]}")
        return EdnSet(values)
    if len(values) % 2:
        raise EdnError(place.line(top.at), f"a map has the key {to_edn(values[-1])} without a value")
    keys = values[::2]
    try:
        pairs = dict(zip(keys, values[1::2], strict=True))
    except TypeError:
        keys = [_key(key) for key in keys]
        pairs = dict(zip(keys, values[1::2], strict=True))
    if len(pairs) < len(keys):
        twice = next(key for nth, key in enumerate(keys) if key in keys[:nth])
        raise EdnError(place.line(top.at), f"a map has the key {to_edn(twice)} twice")
    return pairs


def _key(value: object) -> object:
    if isinstance(value, dict):
        return tuple((_key(name), _key(what)) for name, what in value.items())
    if isinstance(value, Tagged):
        return Tagged(value.tag, _key(value.value))
    return tuple(_key(one) for one in value) if isinstance(value, list) else value


def _in_namespace(space: str, key: object) -> object:
    if not isinstance(key, Keyword) or "/" in key:
        return Keyword(key.removeprefix("_/")) if isinstance(key, Keyword) else key
    return Keyword(f"{space}/{key}")


def _scalar(kind: str, token: str, place: _Place, at: int) -> object:
    if kind == "name":
        return Keyword(token[1:])
    if kind == "int":
        # Python refuses to read a number of more than 4,300 digits.
        if len(token) > DIGITS_MAX:
            raise EdnError(place.line(at), f"found a number of {len(token)} digits")
        return int(token.rstrip("N"))
    try:
        if kind == "string":
            return _ESCAPE.sub(_unescaped, token[1:-1]) if "\\" in token else token[1:-1]
        return _char(token[1:]) if kind == "char" else _atom(token)
    except _NotEdn:
        raise EdnError(place.line(at), f"found {token[:100]!r}, which is not EDN") from None


class _NotEdn(Exception):
    """Of one token."""


def _atom(token: str) -> object:
    if token in _CONSTANTS:
        return _CONSTANTS[token]
    if _HEX.fullmatch(token):
        return int(token, 16)
    if _RATIO.fullmatch(token) and len(token) <= DIGITS_MAX:
        return Fraction(token)
    if _FLOAT.fullmatch(token):
        return Decimal(token[:-1]) if token[-1] == "M" else float(token)
    if _NAME.fullmatch(token):
        return Symbol(token)
    raise _NotEdn


def _unescaped(match: re.Match[str]) -> str:
    escape = match.group(1)
    if escape[0] == "u" and len(escape) == 5:
        return chr(int(escape[1:], 16))
    if escape[0] in "01234567":
        return chr(int(escape, 8))
    if escape not in _ESCAPES:
        raise _NotEdn
    return _ESCAPES[escape]


def _char(name: str) -> Char:
    if len(name) == 1:
        return Char(name)
    if name in _CHARS:
        return Char(_CHARS[name])
    if re.fullmatch(r"u[0-9a-fA-F]{4}", name):
        return Char(chr(int(name[1:], 16)))
    raise _NotEdn


def to_edn(value: object) -> str:
    """A value as EDN, on one line; texts are strings, `Keyword` and `Symbol` names. Raises TypeError."""
    if isinstance(value, bool) or value is None:
        return "nil" if value is None else "true" if value else "false"
    if isinstance(value, str):
        return _text_to_edn(value)
    if isinstance(value, int | Fraction):
        return str(value)
    if isinstance(value, float):
        special = {math.inf: "##Inf", -math.inf: "##-Inf"}
        return "##NaN" if math.isnan(value) else special.get(value, repr(value))
    if isinstance(value, Decimal):
        return f"{value}M"
    if isinstance(value, Tagged):
        return f"#{value.tag} {to_edn(value.value)}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{to_edn(key)} {to_edn(one)}" for key, one in value.items()) + "}"
    if isinstance(value, EdnSet):
        return "#{" + " ".join(to_edn(one) for one in value) + "}"
    if isinstance(value, list | tuple):
        return "[" + " ".join(to_edn(one) for one in value) + "]"
    raise TypeError(f"{type(value).__name__} has no EDN")


_BACK = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


def _text_to_edn(value: str) -> str:
    if isinstance(value, Keyword):
        return f":{value}"
    if isinstance(value, Symbol):
        return str.__str__(value)
    if isinstance(value, Char):
        named = {text: name for name, text in _CHARS.items()}
        plain = value if value.isprintable() and not value.isspace() else f"u{ord(value):04x}"
        return "\\" + named.get(value, plain)
    return '"' + "".join(_BACK.get(one, one if one >= " " else f"\\u{ord(one):04x}") for one in value) + '"'
