"""The examples of docs/extending.md are code of the toy package, which integration tests run."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.integration.harness.test_outside_packages import ENTRY_POINTS

ROOT = Path(__file__).resolve().parents[3]
TOY = ROOT / "tests" / "integration" / "harness" / "outside" / "toy_lab"
TEXT = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_page_has_examples() -> None:
    assert len(EXAMPLES) > 8


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.split("\n")[0].strip() for example in EXAMPLES])
def test_example_is_a_piece_of_the_toy_package(example: str) -> None:
    assert any(example in path.read_text(encoding="utf-8") for path in TOY.glob("*.py"))


def test_entry_points_are_those_of_the_toy_package() -> None:
    (block,) = re.findall(r"^```toml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    groups = tomllib.loads(block)["project"]["entry-points"]
    lines = [
        line for group, points in groups.items() for line in (f"[{group}]", *(f"{k} = {points[k]}" for k in points))
    ]
    assert "\n".join(lines) + "\n" == ENTRY_POINTS
