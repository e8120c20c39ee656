"""No module imports, over however many others, a module that imports it: `TYPE_CHECKING` and local imports included.

What may import what else is for the contracts of import-linter in pyproject.toml.
"""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

PACKAGES = ("broker", "harness", "nemesis", "checkers", "benchmarks", "tools")


def circle_in(imports: dict[str, set[str]]) -> list[str]:
    """The modules of one circle, each imported by the one after it; none where there is no circle."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_modules_import_each_other_in_no_circle() -> None:
    graph = grimp.build_graph(*PACKAGES, cache_dir=None, exclude_type_checking_imports=False)
    assert not circle_in({module: graph.find_modules_directly_imported_by(module) for module in graph.modules})


@pytest.mark.parametrize(
    ("imports", "circle"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, set()),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}, {"a", "b", "c"}),
    ],
)
def test_circle_is_found_over_several_modules(imports: dict[str, set[str]], circle: set[str]) -> None:
    assert set(circle_in(imports)) == circle


def test_imports_for_types_alone_and_within_functions_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "circular"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "a.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from circular.b import B\n")
    (package / "b.py").write_text("def f():\n    import circular.a\n")
    monkeypatch.syspath_prepend(tmp_path)
    graph = grimp.build_graph("circular", cache_dir=None, exclude_type_checking_imports=False)
    circle = circle_in({module: graph.find_modules_directly_imported_by(module) for module in graph.modules})
    assert set(circle) == {"circular.a", "circular.b"}
