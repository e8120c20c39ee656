"""The pytest inside of the sandbox is believed only where it ran the tests, and they passed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.nodes.inner import run_pytest_in_sandbox, what_is_wrong


@pytest.mark.parametrize(
    ("target", "exit_code", "summary", "wrong"),
    [
        ("a.py::test_a", 0, "1 passed in 0.02s", None),
        ("a.py", 0, "18 passed, 2 warnings in 71.20s (0:01:11)", None),
        ("a.py::test_a", 0, "1 skipped in 0.01s", "not all of it passed"),
        ("a.py", 0, "17 passed, 1 skipped in 0.01s", "not all of it passed"),
        ("a.py", 0, "1 passed, 1 xfailed in 0.01s", "not all of it passed"),
        ("a.py::test_a", 0, "2 passed in 0.01s", "one test was to be run"),
        ("a.py", 0, "", "there is no summary"),
        ("a.py", 5, "no tests ran in 0.01s", "it failed"),
        ("a.py", 1, "1 failed, 3 passed in 0.01s", "it failed"),
    ],
)
def test_what_is_wrong_with_an_inner_run(target: str, exit_code: int, summary: str, wrong: str | None) -> None:
    said = what_is_wrong(target, exit_code, f".   [100%]\n{summary}\n")
    assert said is None if wrong is None else wrong in str(said)


def test_inner_test_that_is_skipped_fails_outside(tmp_path: Path) -> None:
    file = tmp_path / "test_nothing.py"
    file.write_text("import pytest\n\ndef test_a(): pytest.skip('it lacks something')\n")
    with pytest.raises(pytest.fail.Exception, match="not all of it passed: 1 skipped") as failure:
        run_pytest_in_sandbox(f"{file}::test_a")
    assert "it lacks something" in str(failure.value)
