"""A node whose Python would pass over compiled modules is refused, before anything is copied to it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.nodes.base import CommandFailed, Completed
from harness.nodes.compiled import check_compiled_modules
from harness.nodes.payload import Payload
from harness.nodes.provision import Provision
from tests.support.fake_cluster import FakeNode

FOR_311 = "cpython-311-x86_64-linux-gnu.so"


class NodeWith313(FakeNode):
    """A node with a Python 3.13, that notes what is put there."""

    def __init__(self) -> None:
        super().__init__("n1", "10.0.0.1")
        self.got: list[str] = []

    def run(
        self, argv: Sequence[str], *, check: bool = True, timeout_s: float = 30.0, input_text: str | None = None
    ) -> Completed:
        if argv[0] == "sh":
            return Completed(tuple(argv), 0, "/usr/bin/python3 3 13 x86_64\n", "")
        return Completed(tuple(argv), 0, "3.13.5 x86_64 .cpython-313-x86_64-linux-gnu.so .abi3.so .so\n", "")

    def put(self, local: Path, remote: str) -> None:
        self.got.append(remote)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "broker"
    (folder / "core").mkdir(parents=True)
    (folder / "core" / "leader.py").write_text("")
    return folder


def test_node_with_another_python_is_refused_by_name_with_what_would_be_right(package: Path) -> None:
    (package / "core" / f"leader.{FOR_311}").write_bytes(b"")
    with pytest.raises(CommandFailed) as raised:
        check_compiled_modules(NodeWith313(), "python3", package)
    text = str(raised.value)
    for part in ("node n1", "Python 3.13.5 on x86_64 (python3)", f"broker/core/leader.{FOR_311}"):
        assert part in text
    assert "takes *.cpython-313-x86_64-linux-gnu.so" in text
    assert "system.source" in text


def test_node_that_is_refused_gets_nothing(package: Path) -> None:
    (package / f"hot__mypyc.{FOR_311}").write_bytes(b"")
    node = NodeWith313()
    payload = Payload(package.parent, package.parent)
    with pytest.raises(CommandFailed, match="hot__mypyc"):
        Provision(node).upload_broker(payload)  # type: ignore[arg-type]
    assert node.got == []


@pytest.mark.parametrize("name", ["leader.cpython-313-x86_64-linux-gnu.so", "leader.abi3.so"])
def test_node_with_the_python_of_the_compiled_modules_is_accepted(package: Path, name: str) -> None:
    (package / "core" / name).write_bytes(b"")
    check_compiled_modules(NodeWith313(), "python3", package)


def test_node_of_any_python_is_accepted_for_sources(package: Path) -> None:
    node = NodeWith313()
    node.broken = True
    check_compiled_modules(node, "python3", package)
