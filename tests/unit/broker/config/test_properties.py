"""Java's .properties text."""

from __future__ import annotations

import pytest

from broker.config.properties import PropertiesError, parse_properties


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
        ("\\u0061\\u003d=1", {"a=": "1"}),
        ("a=1\x0b2\x852\u20283\r\nb=2\rc=3", {"a": "1\x0b2\x852\u20283", "b": "2", "c": "3"}),
        ("\\\n# a=1", {"#": "a=1"}),
        ("\u00a0a=1", {"\u00a0a": "1"}),
    ],
)
def test_properties_text_parses_as_java_does(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize("line", ["dir=C:\\users\\kafka", "dir=\\u00", "\\u+0a1=x", "dir=\\u\uff11\uff11\uff11\uff11"])
def test_malformed_escape_is_refused_with_its_line_and_what_would_be_right(line: str) -> None:
    with pytest.raises(PropertiesError, match=r"^line 3: malformed \\uxxxx encoding '\\u.*': four hexadecimal digits"):
        parse_properties(f"# note\na=1\n{line}\nb=2")
