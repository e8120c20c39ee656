from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from harness.nightly.matrix import Cell, Night, is_matrix, parse_matrix
from harness.plan.toml_source import PlanError

HERE = Path("matrix.toml")
TWO = "[axis.load.light]\nworkload.rate = 10\n[axis.load.heavy]\n[axis.nodes.local]\n[axis.nodes.docker]\n"


def cells(text: str) -> list[Cell]:
    return parse_matrix(HERE, text)[1]


def night(text: str) -> Night:
    return parse_matrix(HERE, text)[0]


def test_cells_are_the_product_of_the_axes_in_their_order() -> None:
    found = cells(TWO)
    assert [cell.name for cell in found] == ["light-local", "light-docker", "heavy-local", "heavy-docker"]
    assert found[1].values == {"load": "light", "nodes": "docker"}
    assert tomllib.loads(found[0].text) == {"name": "light-local", "workload": {"rate": 10}}


def test_later_axes_count_over_earlier_ones_and_over_the_base_key_by_key() -> None:
    text = "[base.workload]\nrate = 1\nproducers = 2\n[axis.a.x.workload]\nrate = 3\n[axis.b.y.workload]\nrate = 4\n"
    (found,) = cells(text)
    assert tomllib.loads(found.text)["workload"] == {"rate": 4, "producers": 2}


def test_lists_are_replaced_as_a_whole() -> None:
    (found,) = cells('[base.faults]\nkinds = ["kill", "pause"]\n[axis.a.x.faults]\nkinds = ["stop"]\n')
    assert tomllib.loads(found.text)["faults"] == {"kinds": ["stop"]}


def test_name_and_seed_of_a_value_are_not_the_runs() -> None:
    (found,) = cells('[axis.a.x]\nname = "mine"\nseed = 7\n')
    assert tomllib.loads(found.text) == {"name": "x"}


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        ('load = "light"', ["heavy-local", "heavy-docker"]),
        ('load = "light"\nnodes = "docker"', ["light-local", "heavy-local", "heavy-docker"]),
        ('nodes = ["docker"]', ["light-local", "heavy-local"]),
    ],
)
def test_rules_leave_combinations_out(rule: str, left: list[str]) -> None:
    assert [cell.name for cell in cells(f"{TWO}[[leave_out]]\n{rule}\n")] == left


def test_night_is_read_with_its_defaults() -> None:
    assert night("[axis.a.x]\n") == Night()
    text = (
        'name = "n"\nseeds = 3\nfresh_seeds = true\nminutes = 90\nlanes = 2\nretries = 0\n'
        'keep_days = 7\nkeep_gb = 1.5\nwebhook = "https://x/y"\n[axis.a.x]\n'
    )
    assert night(text) == Night("n", 3, True, 90.0, 2, 0, 7.0, 1.5, "https://x/y")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[axis.a.x]\n[bass]\n", r"matrix.toml:2: bass: unknown key \(did you mean base\?\)"),
        ("seeds = 0\n[axis.a.x]\n", "matrix.toml:1: seeds: 0 is not a whole number from 1 to 1000000"),
        ("fresh_seeds = 1\n[axis.a.x]\n", "matrix.toml:1: fresh_seeds: 1 is not true or false"),
        ('webhook = "x"\n[axis.a.x]\n', "webhook: 'x' is not text like https"),
        ("[axis.a.X]\n", "matrix.toml:1: axis.a.X: 'X' is not a name of small letters"),
        ("[axis]\na = 1\n", "matrix.toml:2: axis.a: 1 is not a table"),
        (
            f'{TWO}[[leave_out]]\nlod = "light"\n',
            r"leave_out.0.lod: 'lod' is no axis \(did you mean load\?\): load, nodes",
        ),
        (f'{TWO}[[leave_out]]\nload = "lite"\n', r"leave_out.0.load: 'lite' is none of light, heavy"),
        (f"{TWO}[[leave_out]]\n", "leave_out.0: names no axis, and would leave everything out"),
        (f'{TWO}[[leave_out]]\nload = ["light", "heavy"]\n', "leave_out: leaves nothing"),
        ("[axis.a.x-y]\n[axis.a.x]\n[axis.b.y-z]\n[axis.b.z]\n", "two combinations are called 'x-y-z'"),
        ('[base]\nfile = "a"\n[axis.a.x]\n', "matrix.toml:2: base.file: stands in a value of an axis"),
        ('[axis.a.x]\nfile = "a"\n[axis.b.y]\nfile = "b"\n', "axis.a.x and axis.b.y both name a file to begin with"),
        ('[axis.a.x]\nfile = "/nowhere/a.toml"\n', "matrix.toml:2: axis.a.x.file: /nowhere/a.toml: cannot be read"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_place(text: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        parse_matrix(HERE, text)


def test_matrix_is_told_from_a_run_file_by_its_axes() -> None:
    assert is_matrix(HERE, "[axis.a.x]\n")
    assert not is_matrix(HERE, 'name = "axis"\n[topic]\nname = "[axis.a.x]"\n')
