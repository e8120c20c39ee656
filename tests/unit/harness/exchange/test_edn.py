"""The EDN reader: what it reads, what it refuses and on which line, and that it reads what it wrote."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.exchange.edn import (
    Char,
    EdnError,
    EdnSet,
    Keyword,
    Symbol,
    Tagged,
    read_elements,
    read_forms,
    to_edn,
)

READ: dict[str, object] = {
    "nil": None,
    "true": True,
    "false": False,
    "0": 0,
    "-17": -17,
    "+5": 5,
    "42N": 42,
    "0x1F": 31,
    "-0xff": -255,
    "1.5": 1.5,
    "-1e3": -1000.0,
    "2.": 2.0,
    "1.50M": Decimal("1.50"),
    "3/4": Fraction(3, 4),
    "##Inf": math.inf,
    "##-Inf": -math.inf,
    ":send": Keyword("send"),
    ":a/b": Keyword("a/b"),
    ":seek-to-beginning?": Keyword("seek-to-beginning?"),
    ":1": Keyword("1"),
    "clojure.core/+": Symbol("clojure.core/+"),
    "/": Symbol("/"),
    "-": Symbol("-"),
    '"a\\n\\"b\\" \\u0041\\101\\\\"': 'a\n"b" AA\\',
    '""': "",
    "\\a": Char("a"),
    "\\newline": Char("\n"),
    "\\u0041": Char("A"),
    "\\(": Char("("),
    "[]": [],
    "(1 2, 3)": [1, 2, 3],
    "[1[2]3]": [1, [2], 3],
    "{}": {},
    "{:a 1, :b [2 {3 4}]}": {"a": 1, "b": [2, {3: 4}]},
    "{[1 2] 3}": {(1, 2): 3},
    "#{1 2}": EdnSet([1, 2]),
    "#{1 true 1.0}": EdnSet([1, True, 1.0]),
    '#inst "2026"': Tagged("inst", "2026"),
    "#jepsen.history.Op{:index 0}": Tagged("jepsen.history.Op", {"index": 0}),
    '#object[java.lang.Object 0x1a "o"]': Tagged("object", ["java.lang.Object", 26, "o"]),
    "#a #b 1": Tagged("a", Tagged("b", 1)),
    "#:n{:a 1, :_/b 2, :c/d 3, 4 5}": {"n/a": 1, "b": 2, "c/d": 3, 4: 5},
    "[1 #_2 3 #_ #_ 4 5]": [1, 3],
    "[1 ; 2 ]\n 3]": [1, 3],
    "[#_[1 2] #_#x {:a 1}]": [],
}

REFUSED = {
    "[1 2": (1, "ends within what '[' on line 1 began"),
    "[1\n\n{:a 1": (3, "ends within what '{' on line 3 began"),
    "[1\n}": (2, "found '}', should be the ']' of line 1"),
    ")": (1, "found ')', which nothing opened"),
    '[1\n"ab\ncd': (2, "ends within a string"),
    "{:a}": (1, "the key :a without a value"),
    "{:a 1\n:a 2}": (1, "the key :a twice"),
    "#{1 2 1}": (1, "a set has an element twice"),
    "08": (1, "found '08'"),
    "1a": (1, "found '1a'"),
    "1/0": (1, "found '1/0'"),
    "9" * 5000: (1, "a number of 5000 digits"),
    "9" * 5000 + "/2": (1, "which is not EDN"),
    '"\\q"': (1, "which is not EDN"),
    "\\abc": (1, "found '\\\\abc'"),
    ":": (1, "found ':'"),
    "##Foo": (1, "found '##Foo'"),
    "^{:a 1} b": (1, "found '^'"),
    "@a": (1, "found '@a'"),
    "[#_]": (1, "found ']' behind #_"),
    "#x": (1, "ends within what '#x' on line 1 began"),
    "[" * 201: (1, "nest more than 200 deep"),
}


@pytest.mark.parametrize("text", READ)
def test_edn_is_read(text: str) -> None:
    (form,) = read_forms(f"  {text} ; a comment")
    assert form.value == READ[text]
    assert type(form.value) is type(READ[text])


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:12])
def test_what_is_no_edn_is_refused_with_its_line(text: str) -> None:
    line, told = REFUSED[text]
    with pytest.raises(EdnError) as caught:
        list(read_forms(text))
    assert (caught.value.line, told in str(caught.value)) == (line, True), str(caught.value)


def test_elements_know_their_lines() -> None:
    assert [(form.value, form.line) for form in read_forms('1\n\n{:a "x\ny"} 2\n3')] == [
        (1, 1),
        ({"a": "x\ny"}, 3),
        (2, 4),
        (3, 5),
    ]
    assert [(form.value, form.line) for form in read_elements("; all\n[1\n {:a 2}\n 3]\n")] == [
        (1, 2),
        ({"a": 2}, 3),
        (3, 4),
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [("[1] 2", "behind the vector's end"), ("{:a 1}", "should be the [ of a vector"), ("[1 2", "ends within")],
)
def test_one_vector_is_all_that_a_text_holds(text: str, told: str) -> None:
    with pytest.raises(EdnError, match=told.replace("[", r"\[")):
        list(read_elements(text))


_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.from_regex(r"[a-z][a-z0-9?!-]{0,8}", fullmatch=True).map(Keyword),
    st.from_regex(r"[a-z][a-z0-9?!-]{0,8}", fullmatch=True)
    .filter(lambda name: name not in ("nil", "true", "false"))
    .map(Symbol),
    st.characters(categories=("L", "N", "P", "S", "Z", "Cc")).map(Char),
    st.fractions().filter(lambda number: number.denominator > 1),
)
_KEYS = st.one_of(st.integers(), st.from_regex(r"[a-z]{1,8}", fullmatch=True).map(Keyword))
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(_KEYS, inner, max_size=4),
        st.builds(Tagged, st.just("x"), inner),
        st.lists(st.integers(), unique=True).map(EdnSet),
    ),
    max_leaves=12,
)


@given(_VALUES)
def test_edn_that_was_written_is_read_as_it_was(value: object) -> None:
    text = to_edn(value)
    assert "\n" not in text
    (form,) = read_forms(text)
    assert form.value == value
    assert to_edn(form.value) == text


@given(st.text(alphabet='[]{}()#_:"\\ \nab01.-/;~@', max_size=30))
def test_no_text_ends_in_another_error(text: str) -> None:
    line = None
    try:
        list(read_forms(text))
    except EdnError as error:
        line = error.line
    assert line is None or 1 <= line <= 1 + text.count("\n")
