"""junit.xml, as parsers read it: a run's texts come from brokers and packages, and may hold anything."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from junitparser import Error, Failure, JUnitXml, Skipped

from harness.runs.junit import crashed_suite, write_junit, write_suites
from tests.support.examples import examples

pytestmark = pytest.mark.guarantee("H7")

HOSTILE = "".join(map(chr, range(32))) + '\x7f\x85\u2028\ud800\udfff\ufffe\uffff]]>--><!-- &amp; <x a="\'"> 🐟\r\n'


def results(text: str) -> dict[str, object]:
    """Results with the text at every place that JUnit has."""
    checkers = {
        verdict: {"verdict": verdict, "reasons": [text], "witnesses": [{"summary": text}]}
        for verdict in ("valid", "invalid", "unknown", "not-applicable")
    }
    return {"verdict": "invalid", "sentence": text, "checkers": {**checkers, text: {"verdict": text}}}


def test_file_reads_back_in_a_junit_parser(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    write_junit(path, "demo", {**results("why"), "analysis": {"seconds": 2.5}})
    (suite,) = JUnitXml.fromfile(str(path))
    assert (suite.name, suite.tests, suite.failures, suite.errors, suite.skipped) == ("demo", 6, 2, 2, 1)
    assert suite.time == 2.5
    found = {case.name: [(type(result), result.message, result.text) for result in case.result] for case in suite}
    assert found == {
        "verdict": [(Failure, "why", "why")],
        "valid": [],
        "invalid": [(Failure, "why", "why\nwhy")],
        "unknown": [(Error, "why", "why\nwhy")],
        "not-applicable": [(Skipped, "why", "why\nwhy")],
        "why": [(Error, "why", None)],
    }
    assert {case.classname for case in suite} == {"highwater.demo"}


def test_file_survives_characters_that_xml_cannot_hold(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    write_junit(path, HOSTILE, results(HOSTILE))
    failure = ElementTree.parse(path).getroot().find("testsuite/testcase[@name='verdict']/failure")
    assert failure is not None
    kept = "\ufffd" * 9 + "\t\n" + "\ufffd" * 2 + "\r" + "\ufffd" * 18 + "\x7f\x85\u2028" + "\ufffd" * 4
    kept += ']]>--><!-- &amp; <x a="\'"> 🐟\r\n'
    assert failure.get("message") == kept
    # XML's rule for line ends in a text.
    assert failure.text == kept.replace("\r\n", "\n").replace("\r", "\n")
    (suite,) = JUnitXml.fromfile(str(path))
    assert (suite.name, suite.tests, suite.errors) == (kept, 6, 2)


@given(text=st.text(st.characters(exclude_categories=()), min_size=1))
@examples(50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_file_with_any_text_has_all_its_cases(tmp_path: Path, text: str) -> None:
    path = tmp_path / "junit.xml"
    write_suites(path, [crashed_suite(text, text), crashed_suite("other", text)])
    assert [suite.tests for suite in JUnitXml.fromfile(str(path))] == [1, 1]
    messages = [error.get("message") for error in ElementTree.parse(path).getroot().iter("error")]
    assert len(messages) == 2
    assert len(messages[0] or "") == len(text)


def test_file_is_replaced_whole(tmp_path: Path) -> None:
    """Whoever still reads the file of an earlier analysis reads that one to its end."""
    path = tmp_path / "junit.xml"
    write_junit(path, "old", results("why"))
    before = path.read_bytes()
    with path.open("rb") as file:
        write_junit(path, "new", results("why not"))
        assert file.read() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["junit.xml"]
    assert path.read_bytes() != before
