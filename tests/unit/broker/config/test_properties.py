"""Java's .properties text."""

from __future__ import annotations

import pytest

from broker.config.properties import parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb: 2\nc 3", {"a": "1", "b": "2", "c": "3"}),
        ("# note\n! note\n\n  a = 1 ", {"a": "1 "}),
        ("a=1,\\\n   2", {"a": "1,2"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a=\\u0041\\n", {"a": "A\n"}),
        ("a=C:\\\\dir", {"a": "C:\\dir"}),
        ("a=1\na=2", {"a": "2"}),
        ("a", {"a": ""}),
    ],
)
def test_properties_text_parses_as_java_does(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected
