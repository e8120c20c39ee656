"""Which of two processes runs a test, and when: by its file, but for folders whose tests share a process."""

from __future__ import annotations

from tools.processes import process_of, turn
from tools.suite import Suite

SUITE = Suite((), (), (), first=("lab", "log/test_long.py", "log"), one_process=("lab",))


def test_tests_of_a_file_share_a_process() -> None:
    assert process_of("tests/log/test_long.py", SUITE) == "tests/log/test_long.py"


def test_tests_of_a_folder_of_one_process_share_it_whatever_their_file() -> None:
    first, second = (process_of(f"tests/lab/test_{name}.py", SUITE) for name in "ab")
    assert first == second == "tests/lab"
    assert process_of("tests/lab_tools/test_a.py", SUITE) == "tests/lab_tools/test_a.py"


def test_files_begin_in_the_order_of_the_table_and_what_it_does_not_name_after_them() -> None:
    files = ["tests/net/test_a.py", "tests/log/test_a.py", "tests/log/test_long.py", "tests/lab/test_a.py"]
    assert sorted(files, key=lambda file: turn(file, SUITE)) == files[::-1]
