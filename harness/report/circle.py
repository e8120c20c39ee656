"""A cycle of transactions as steps: one for each dependency, from the transaction that stands before to the next.

Decides words and lanes; `diagram` draws them, with a column for each transaction. Takes `cycle` of a witness
(docs/results-format.md). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.report.steps import Step

_MEANS = {
    "ww": "wrote before",
    "wr": "was read by",
    "rw": "read before the write of",
    "process": "was carried out, by the same process, before",
    "real-time": "was over before the begin of",
}


def circle(edges: Sequence[Mapping[str, Any]]) -> tuple[Step, ...]:
    """In the order of the cycle; the last step leads back to the first one's lane."""
    return tuple(
        Step(
            at_s=int(edge.get("at_ns") or 0) / 1e9,
            kind="cycle",
            lanes=(lane(str(edge["from"])),),
            text=f"{_begins(edge['from'])} {_MEANS.get(edge['edge'], edge['edge'])} {edge['to']}: {edge['text']}.",
            label=str(edge["edge"]),
            to=lane(str(edge["to"])),
        )
        for edge in edges
    )


def lanes(steps: Sequence[Step]) -> tuple[str, ...]:
    """A column for each of its transactions and polls."""
    return tuple(dict.fromkeys(one for step in steps for one in step.lanes))


def lane(name: str) -> str:
    """What the head of a column has room for: transactions have long numbers."""
    return name.replace("transaction ", "T")


def _begins(name: object) -> str:
    text = str(name)
    return text[:1].upper() + text[1:]
