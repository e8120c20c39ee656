from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from harness.plan.toml_text import document

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
plain = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), texts)
values = st.recursive(
    plain, lambda inside: st.one_of(st.lists(inside, max_size=3), st.dictionaries(texts, inside, max_size=3))
)


@given(st.dictionaries(texts, values, max_size=4))
def test_document_reads_back_as_the_same_values(written: dict[str, object]) -> None:
    assert tomllib.loads(document(written)) == written


def test_document_has_a_header_for_each_table() -> None:
    text = document({"name": "a", "script": [{"do": "kill", "at": {"s": 1}}], "topic": {"config": {"min.isr": 2}}})
    assert text == ('name = "a"\n\n[[script]]\ndo = "kill"\n\n[script.at]\ns = 1\n\n[topic.config]\n"min.isr" = 2\n')
