"""Which record a script means by a name, of the lines of its history."""

from __future__ import annotations

import json

import pytest

from checkers.results.witnesses import script_names

pytestmark = pytest.mark.guarantee("V6")


def step(do: str, result: object, f: str = "step") -> str:
    return json.dumps({"f": f, "do": do, "result_json": json.dumps(result)})


def test_names_are_those_of_every_send() -> None:
    lines = [
        step("send", {"names": ["m1"], "values": [0], "outcome": "ok"}),
        step("kill", {"observed": True}),
        step("send", {"names": ["m2", "m3"], "values": [1, 2], "outcome": "info"}),
    ]
    assert script_names(lines) == {"0": "m1", "1": "m2", "2": "m3"}


@pytest.mark.parametrize(
    "line",
    [
        '{"f":"step","result_json":',
        step("send", {"names": ["m1"], "values": [0, 1]}),
        step("send", ["m1"]),
        step("send", {"names": ["m1"], "values": [0]}, f="phase"),
        '["step"]',
    ],
    ids=["torn", "unequal", "a list", "another line", "no object"],
)
def test_line_that_says_no_names_is_passed_over(line: str) -> None:
    assert script_names([line, step("send", {"names": ["m2"], "values": [1]})]) == {"1": "m2"}
