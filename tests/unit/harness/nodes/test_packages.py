"""What a node gets to run: the package `broker` of a system's source, or the packages that a system brings itself."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.nodes import transfer
from harness.nodes.base import CommandFailed, Completed
from harness.nodes.packages import put_packages
from harness.nodes.payload import Payload
from harness.nodes.provision import Provision
from tests.support.fake_cluster import FakeNode


class NodeOfArchives(FakeNode):
    """A node that gets files as archives, as ssh and docker nodes do. Its folders are below `disk`."""

    def __init__(self, disk: Path) -> None:
        super().__init__("n1", "10.0.0.1")
        self.disk = disk
        self.ran: list[Sequence[str]] = []
        self.importable = True

    def put(self, local: Path, remote: str) -> None:
        archive = io.BytesIO()
        transfer.pack(local, remote, archive)
        archive.seek(0)
        transfer.unpack(archive, self.disk / remote.lstrip("/"))

    def run(
        self, argv: Sequence[str], *, check: bool = True, timeout_s: float = 30.0, input_text: str | None = None
    ) -> Completed:
        self.ran.append(argv)
        if argv[0] == "sh":
            return Completed(tuple(argv), 0, "/usr/bin/python3 3 13 x86_64\n", "")
        if not self.importable:
            raise CommandFailed("node n1: ModuleNotFoundError")
        return Completed(tuple(argv), 0, "", "")

    def copied(self) -> list[str]:
        """Every file below the node's folder."""
        root = self.disk / self.root.lstrip("/")
        return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


class PayloadWithDependency(Payload):
    """Its broker needs one module."""

    def __init__(self, source: Path, folder: Path, dependencies: Path) -> None:
        super().__init__(source, folder)
        self._dependencies = dependencies

    def dependencies(self, python: object) -> Path:
        return self._dependencies


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with a package `lantern`, a module and a namespace folder."""
    folder = tmp_path / "source"
    (folder / "lantern" / "inner" / "__pycache__").mkdir(parents=True)
    (folder / "lantern" / "__init__.py").write_text("")
    (folder / "lantern" / "inner" / "server.py").write_text("")
    (folder / "lantern" / "inner" / "__pycache__" / "server.pyc").write_bytes(b"")
    (folder / "wick.py").write_text("")
    (folder / "data").mkdir()
    return folder


@pytest.fixture
def node(tmp_path: Path) -> NodeOfArchives:
    return NodeOfArchives(tmp_path / "disk")


@pytest.fixture
def payload(source: Path, tmp_path: Path) -> Payload:
    dependencies = tmp_path / "dependencies"
    dependencies.mkdir()
    (dependencies / "kazoo.py").write_text("")
    return PayloadWithDependency(source, tmp_path / "run" / "payload", dependencies)


def test_packages_and_modules_of_a_system_lie_side_by_side_before_the_path_of_the_broker(
    source: Path, node: NodeOfArchives
) -> None:
    path = put_packages(node, [source / "lantern", source / "wick.py"])
    assert path == "/n1/packages:/broker"
    assert node.copied() == ["packages/lantern/__init__.py", "packages/lantern/inner/server.py", "packages/wick.py"]
    assert node.ran == [["env", "PYTHONPATH=/n1/packages:/broker", "python", "-c", "import lantern, wick"]]


def test_system_that_runs_no_python_brings_no_packages(node: NodeOfArchives, tmp_path: Path) -> None:
    assert put_packages(node, []) == "/n1/packages:/broker"
    assert (node.copied(), node.ran) == ([], [])


def test_packages_that_the_node_cannot_import_are_refused_before_a_daemon_is_started(
    source: Path, node: NodeOfArchives
) -> None:
    node.importable = False
    with pytest.raises(CommandFailed, match="ModuleNotFoundError"):
        put_packages(node, [source / "lantern"])


@pytest.mark.parametrize("name", ["data", "nothing"])
def test_path_that_is_no_package_is_refused_before_anything_is_copied(
    source: Path, node: NodeOfArchives, name: str
) -> None:
    with pytest.raises(ValueError, match=f"{name}: neither the folder of a package"):
        put_packages(node, [source / "lantern", source / name])
    assert node.copied() == []


def test_source_without_the_package_broker_leaves_nodes_with_the_dependencies_alone(
    payload: Payload, node: NodeOfArchives
) -> None:
    payload.copy_broker()
    assert payload.broker_folder.is_dir()
    Provision(node).upload_broker(payload)  # type: ignore[arg-type]
    assert node.copied() == ["lib/kazoo.py"]
    assert not [argv for argv in node.ran if argv[0] == "env"]


def test_package_broker_of_the_source_is_copied_to_nodes_with_its_dependencies_and_nothing_beside_it(
    source: Path, payload: Payload, node: NodeOfArchives
) -> None:
    (source / "broker").mkdir()
    (source / "broker" / "__init__.py").write_text("")
    payload.copy_broker()
    Provision(node).upload_broker(payload)  # type: ignore[arg-type]
    assert node.copied() == ["lib/broker/__init__.py", "lib/kazoo.py"]
    ((*_, code),) = [argv for argv in node.ran if argv[0] == "env"]
    assert code.startswith("import broker, ")
