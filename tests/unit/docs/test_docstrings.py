"""Each public module, class, function and method of broker, harness and nemesis says what it does.

Public is what has no leading underscore in any part of its name. Not asked of:
- a method that a base class or a Protocol of these packages describes under the same name: the description is there;
- a property that hands out one attribute (`return self.x.y`), of which name and type say all;
- a method that hands its arguments on (`self.x.f(a, b)`): what is called says what happens;
- `__init__` and other special methods: the class's docstring describes them where they need it;
- messages and structs of `broker.wire`, whose module names the definition of Kafka that describes each field;
- one method for each primitive type of Kafka's protocol (`PRIMITIVES`), of which the class's docstring speaks.
What a docstring is worth no test can say; one that only repeats the name is worse than none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("broker", "harness", "nemesis")
PRIMITIVES = {"broker/wire/primitives.py", "broker/wire/fields.py"}
_OF_DEFINITIONS = {"Struct", "Message"}

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """One module: its path from the root, and its tree."""

    name: str
    tree: ast.Module


def sources(root: Path) -> list[Source]:
    return [
        Source(path.relative_to(root).as_posix(), ast.parse(path.read_text(encoding="utf-8")))
        for package in PACKAGES
        for path in sorted((root / package).rglob("*.py"))
    ]


def definitions(body: Iterable[ast.stmt]) -> Iterator[Definition]:
    """Public ones only."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield node


def bases(node: ast.ClassDef) -> list[str]:
    """Names of the base classes, without modules and type arguments."""
    found = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)
    return [base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in found]


class Described:
    """Which methods of which classes have docstrings, to be looked up for the classes that inherit or fulfil them."""

    def __init__(self, modules: Iterable[Source]) -> None:
        self._classes = [node for source in modules for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef)]
        self._bases = {node.name: bases(node) for node in self._classes}
        self._methods = {
            node.name: {method.name for method in definitions(node.body) if ast.get_docstring(method)}
            for node in self._classes
        }
        self._protocols = {
            method for name, own in self._bases.items() if "Protocol" in own for method in self._methods[name]
        }

    def elsewhere(self, owner: str, method: str) -> bool:
        """Whether a base class of `owner`, or any Protocol, has a docstring for a method of that name."""
        if method in self._protocols:
            return True
        above = self._bases.get(owner, [])
        return any(
            method in self._methods.get(base, ()) or (base != owner and self.elsewhere(base, method)) for base in above
        )


def hands_on(node: Definition) -> bool:
    """Whether the body is one attribute of a property, or one call with the method's own arguments."""
    if isinstance(node, ast.ClassDef) or len(node.body) != 1:
        return False
    (statement,) = node.body
    value = statement.value if isinstance(statement, ast.Return | ast.Expr) else None
    if isinstance(value, ast.Call):
        if not all(isinstance(given, ast.Name) for given in value.args) or value.keywords:
            return False
        value = value.func.value if isinstance(value.func, ast.Attribute) else None
    elif not any(getattr(mark, "id", "") == "property" for mark in node.decorator_list):
        return False
    return isinstance(value, ast.Attribute) and is_path(value)


def is_path(node: ast.expr) -> bool:
    """`a.b.c`, and nothing called or computed."""
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and is_path(node.value))


def undescribed(modules: Iterable[Source]) -> list[str]:
    """`path: Class.method` of each public name without a docstring that needs one."""
    modules = list(modules)
    described = Described(modules)
    missing = []

    def look(source: Source, body: Iterable[ast.stmt], owner: str = "") -> None:
        for node in definitions(body):
            of_definition = isinstance(node, ast.ClassDef) and bool(_OF_DEFINITIONS & set(bases(node)))
            if not (
                ast.get_docstring(node)
                or of_definition
                or hands_on(node)
                or (owner and (described.elsewhere(owner, node.name) or source.name in PRIMITIVES))
                or (source.name in PRIMITIVES and isinstance(node, ast.FunctionDef))
            ):
                missing.append(f"{source.name}: {f'{owner}.' if owner else ''}{node.name}")
            if isinstance(node, ast.ClassDef):
                look(source, node.body, node.name)

    for source in modules:
        if source.tree.body and not ast.get_docstring(source.tree):
            missing.append(source.name)
        if not any(part.startswith("_") and part != "__init__.py" for part in Path(source.name).parts):
            look(source, source.tree.body)
    return missing


def test_public_names_are_described() -> None:
    assert not undescribed(sources(ROOT))


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("'''Rules.'''\ndef f(): ...\n", ["m.py: f"]),
        ("'''Rules.'''\ndef _f(): ...\nclass _C:\n    def f(self): ...\n", []),
        ("x = 1\n", ["m.py"]),
        ("'''Rules.'''\nclass C:\n    def f(self): ...\n", ["m.py: C", "m.py: C.f"]),
        ("'''Rules.'''\nclass C:\n    '''One.'''\n    @property\n    def f(self): return self._f.f\n", []),
        ("'''Rules.'''\nclass C:\n    '''One.'''\n    @property\n    def f(self): return 1 + self._f\n", ["m.py: C.f"]),
        ("'''Rules.'''\nclass C:\n    '''One.'''\n    def f(self, a): return self.x.f(a)\n", []),
        ("'''Rules.'''\nclass C:\n    '''One.'''\n    def f(self, a): return self.x.f(a + 1)\n", ["m.py: C.f"]),
        ("'''Rules.'''\nclass C:\n    '''One.'''\n    def f(self): return self._f.f\n", ["m.py: C.f"]),
        (
            "'''Rules.'''\nclass A:\n    '''One.'''\n    def f(self): '''Does.'''\n"
            "class B(A):\n    '''Two.'''\nclass C(x.B[int]):\n    '''Three.'''\n    def f(self): ...\n"
            "class D:\n    '''Four.'''\n    def f(self): ...\n",
            ["m.py: D.f"],
        ),
        (
            "'''Rules.'''\nclass P(Protocol):\n    '''One.'''\n    def f(self): '''Does.'''\n"
            "class D:\n    '''Four.'''\n    def f(self): ...\n",
            [],
        ),
    ],
)
def test_what_is_not_described_is_found(text: str, missing: list[str]) -> None:
    assert undescribed([Source("m.py", ast.parse(text))]) == missing
