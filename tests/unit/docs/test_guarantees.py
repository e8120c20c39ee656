"""docs/guarantees.md is made from the marks on the tests, and no guarantee is without a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import guarantees
from tools.guarantees import Shown

TABLE = {entry.id for entry in guarantees.read_table()}
SHOWN = guarantees.collect()


def test_page_is_what_the_marks_and_the_table_make() -> None:
    committed = (guarantees.ROOT / guarantees.PAGE).read_text(encoding="utf-8")
    assert committed == guarantees.page(), "docs/guarantees.md is not up to date: run `make guarantees` and commit it"


def test_every_guarantee_of_the_table_has_a_test() -> None:
    assert not TABLE - SHOWN.keys()


def test_every_mark_names_a_guarantee_of_the_table() -> None:
    assert not {row: places for row, places in SHOWN.items() if row not in TABLE}


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_marks_are_read_of_modules_classes_functions_and_scenarios(tmp_path: Path) -> None:
    module = (
        "import pytest\n"
        "pytestmark = [pytest.mark.spark, pytest.mark.guarantee('R1', 'R2')]\n"
        "@pytest.mark.guarantee('R3')\n"
        "class TestThis:\n"
        "    def test_a(self) -> None: ...\n"
        "@pytest.mark.nightly\n"
        "@pytest.mark.guarantee('R1', 'L1')\n"
        "def test_b() -> None: ...\n"
    )
    write(tmp_path, {"unit/test_x.py": module, "scenarios/s.txt": "# Words.\n# guarantee: R1 R8\ncluster replicas=3\n"})
    here = "unit/test_x.py"
    assert guarantees.collect(tmp_path) == {
        "R1": [Shown("scenarios/s.txt", "", nightly=False), Shown(here, "", nightly=False)],
        "R2": [Shown(here, "", nightly=False)],
        "R3": [Shown(here, "test_a", nightly=False)],
        "R8": [Shown("scenarios/s.txt", "", nightly=False)],
        "L1": [Shown(here, "test_b", nightly=True)],
    }


@pytest.mark.parametrize(
    "marks",
    ["pytestmark = [pytest.mark.nightly, pytest.mark.guarantee('R1')]\n", "pytestmark = pytest.mark.guarantee('R1')\n"],
)
def test_file_whose_tests_are_all_nightly_is_called_nightly(tmp_path: Path, marks: str) -> None:
    write(tmp_path, {"unit/test_x.py": marks + "@pytest.mark.nightly\ndef test_a() -> None: ...\n"})
    assert guarantees.collect(tmp_path) == {"R1": [Shown("unit/test_x.py", "", nightly=True)]}


def test_page_names_the_functions_where_only_some_show_a_guarantee(tmp_path: Path) -> None:
    table = "[[family]]\nname='Log'\n[[family.guarantee]]\nid='L1'\ntitle='Files'\nsentence='''Files\n  stay.'''\n"
    module = "import pytest\n@pytest.mark.guarantee('L1')\n@pytest.mark.nightly\ndef test_b() -> None: ...\n"
    other = "def test_c() -> None: ...\n"
    write(tmp_path, {"guarantees.toml": table, "unit/test_x.py": module, "unit/test_y.py": other})
    expected = "## Log\n\n### L1. Files\n\nFiles stay.\n\n- `unit/test_x.py`:\n  - `test_b` *(nightly)*\n"
    assert guarantees.page(tmp_path).endswith(expected)


def test_id_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    entry = "[[family.guarantee]]\nid='L1'\ntitle='t'\nsentence='s'\n"
    write(tmp_path, {"guarantees.toml": "[[family]]\nname='Log'\n" + entry + entry})
    with pytest.raises(ValueError, match="twice"):
        guarantees.read_table(tmp_path)
