"""Evidence of a running broker: copied again while its files change beneath the copy, and whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.nodes.base import Node
from harness.systems.highwater.evidence import COPY_TRIES, PAUSE_S, collected
from tests.support.fake_cluster import FakeNode

pytestmark = pytest.mark.guarantee("H1")


class Changing:
    """Copies one file, and fails in the middle for the first times."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.pauses: list[float] = []

    def collect(self, _node: Node, folder: Path) -> None:
        (folder / "events.jsonl").write_text("{}")
        if len(self.pauses) < self.failures:
            raise FileNotFoundError("0.log.deleted")


@pytest.mark.parametrize("failures", [0, 3, COPY_TRIES - 1])
def test_copy_in_which_a_file_vanished_is_made_again(tmp_path: Path, failures: int) -> None:
    changing = Changing(failures)
    assert collected(FakeNode("n1", "10.0.0.1"), tmp_path, changing.collect, changing.pauses.append) == ("n1", None)
    assert changing.pauses == [PAUSE_S] * failures
    assert [path.name for path in tmp_path.iterdir()] == ["n1"]


def test_node_whose_files_never_rest_has_no_evidence_and_a_reason(tmp_path: Path) -> None:
    changing = Changing(COPY_TRIES)
    node, why = collected(FakeNode("n1", "10.0.0.1"), tmp_path, changing.collect, changing.pauses.append)
    assert (node, why) == ("n1", "FileNotFoundError: 0.log.deleted")
    assert not (tmp_path / "n1").exists()
