"""ZooKeeper's tree in memory, as `ZkClient` reads and writes it: versions, children, multis that are done wholly or not
at all. Nothing is lost here, and no watch fires; what happens between a read and a write a test says by `before`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from broker.zk.client import WriteRefused, ZkClient
from broker.zk.operations import Create, CreateSequence, Delete, Node, Operation, SetData


class Znodes:
    """Has the part of `ZkClient` that deletions need."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.before: Callable[[Sequence[Operation]], None] = lambda operations: None
        """Called with each multi before it is carried out."""
        self._transaction = 0

    @property
    def client(self) -> ZkClient:
        return cast(ZkClient, self)

    def put(self, path: str, data: bytes = b"", version: int = 0) -> None:
        """Without a look at what is there."""
        self._transaction += 1
        self.nodes[path] = Node(data, version, self._transaction, self._transaction, 0)

    def get(self, path: str) -> Node | None:
        return self.nodes.get(path)

    def get_many(self, paths: Sequence[str]) -> dict[str, Node | None]:
        """In another order than asked, as after a lost connection."""
        return {path: self.nodes.get(path) for path in reversed(paths)}

    def children_many(self, paths: Sequence[str]) -> dict[str, list[str] | None]:
        return {path: self.children(path) for path in paths}

    def children(self, path: str) -> list[str] | None:
        if path not in self.nodes:
            return None
        below = [other[len(path) + 1 :] for other in self.nodes if other.startswith(f"{path}/")]
        return sorted({name.partition("/")[0] for name in below})

    def create(self, path: str, data: bytes) -> None:
        self.multi([Create(path, data)])

    def set(self, path: str, data: bytes, version: int) -> int:
        return self.multi([SetData(path, data, version)])[0]

    def multi(self, operations: Sequence[Operation]) -> list[int]:
        self.before(operations)
        nodes = dict(self.nodes)
        try:
            return [self._carry_out(operation, index) for index, operation in enumerate(operations)]
        except WriteRefused:
            self.nodes = nodes
            raise

    def _carry_out(self, operation: Operation, index: int) -> int:
        assert not isinstance(operation, CreateSequence)
        path, node = operation.path, self.nodes.get(operation.path)
        if isinstance(operation, Create):
            if node is not None:
                raise WriteRefused(operation, index, "node-exists")
            self.put(path, operation.data)
            return 0
        if node is None:
            raise WriteRefused(operation, index, "no-node")
        if operation.version not in (-1, node.version):
            raise WriteRefused(operation, index, "bad-version")
        if isinstance(operation, SetData):
            self.put(path, operation.data, node.version + 1)
            return node.version + 1
        if isinstance(operation, Delete):
            if self.children(path):
                raise WriteRefused(operation, index, "not-empty")
            del self.nodes[path]
        return -1
