from __future__ import annotations

from tools.dead_code import Allowed, Unused, complaints, unused

FILES = (
    ("broker/a.py", "class A:\n    def used(self): ...\n    def unused(self): ...\n"),
    ("harness/b.py", "from broker.a import A\nA().used()\n"),
    ("tests/test_c.py", "def helper(): ...\n"),
)
FOUND = Unused("broker/a.py", 3, "method", "unused")


def test_what_no_file_mentions_is_found_in_packages_alone() -> None:
    assert unused(FILES) == [FOUND]


def test_what_a_test_mentions_is_used() -> None:
    assert unused([*FILES, ("tests/test_d.py", "from broker.a import A\nA().unused()\n")]) == []


def test_complaint_names_the_place() -> None:
    (line,) = complaints([FOUND], ())
    assert line.startswith("broker/a.py:3: method unused is used by nothing")


def test_allowed_is_by_path_and_name() -> None:
    assert complaints([FOUND], [Allowed("broker/*.py", "un*", "somebody")]) == []
    assert len(complaints([FOUND], [Allowed("broker/b.py", "unused", "somebody")])) == 2


def test_entry_that_allows_nothing_is_a_complaint() -> None:
    (line,) = complaints([], [Allowed("broker/a.py", "unused", "somebody")])
    assert line == "tools/dead_code.py: broker/a.py unused is used, or gone: remove its entry"
