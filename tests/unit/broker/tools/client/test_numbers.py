from __future__ import annotations

import pytest

from broker.tools.client.numbers import finite_number, whole_number


@pytest.mark.parametrize(
    ("text", "bits", "number"),
    [("0", 16, 0), ("+7", 32, 7), ("-0012", 32, -12), (str(2**31 - 1), 32, 2**31 - 1), (str(-(2**63)), 64, -(2**63))],
)
def test_number_that_java_reads_is_read(text: str, bits: int, number: int) -> None:
    assert whole_number(text, bits) == number


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        *[(text, 64) for text in ("", "-", "1_0", "\uff11", "\u00b2", " 1", "1.0", "0x1", str(2**63), "9" * 5000)],
        ("32768", 16),
        (str(2**31), 32),
        (str(-(2**31) - 1), 32),
    ],
)
def test_what_java_does_not_read_is_none(text: str, bits: int) -> None:
    assert whole_number(text, bits) is None


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("+7.", 7), ("-.5", -0.5), ("0012.25", 12.25), ("1e6", 1e6), ("2E-3", 0.002)]
)
def test_number_with_a_fraction_is_read(text: str, number: float) -> None:
    assert finite_number(text) == number


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        ".",
        "1_0",
        "\uff11",
        " 1",
        "1 ",
        "0x1",
        "1,5",
        "e5",
        "1e",
        "nan",
        "inf",
        "-Infinity",
        "1e400",
        "9" * 5000,
    ],
)
def test_what_is_no_finite_number_is_none(text: str) -> None:
    assert finite_number(text) is None
