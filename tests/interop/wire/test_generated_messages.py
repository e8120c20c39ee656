"""The cold messages' modules are what Kafka's own message definitions make of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.messages import modules

pytestmark = pytest.mark.guarantee("K1")


def test_modules_are_what_kafkas_definitions_make(classpath: str) -> None:
    (jar,) = Path(classpath.removesuffix("*")).glob("kafka-clients-*.jar")
    differing = [path.name for path, text in modules(jar).items() if path.read_text(encoding="utf-8") != text]
    assert differing == [], f"python -m tools.messages {jar} writes them anew"
