"""Changes of a run in who wrote the replicas' batches: sequences, epochs, transactions and their markers."""

from __future__ import annotations

from typing import Any

from tests.support.histories import OUT
from tests.support.judging import Case


def _on_one(case: Case, base: int, **fields: Any) -> None:
    """Of one replica alone: the bytes count as equal."""
    rows = case.tables["batches"]
    node = rows[0]["node"]
    next(row for row in rows if row["node"] == node and row["base"] == base).update(fields)


def sequenced(case: Case) -> None:
    """All is one producer's."""
    for row in case.tables["batches"]:
        row.update(producer_id=7, producer_epoch=0, base_sequence=row["base"])


def repeated(case: Case) -> None:
    sequenced(case)
    last = max(row["base"] for row in case.tables["batches"])
    _on_one(case, last, base_sequence=last - 1)


def gap(case: Case) -> None:
    sequenced(case)
    last = max(row["base"] for row in case.tables["batches"])
    _on_one(case, last, base_sequence=last + 1)


def begun_in_the_middle(case: Case) -> None:
    sequenced(case)
    for row in case.tables["batches"]:
        row["base_sequence"] += 3


def _second_epoch(case: Case, first_sequence: int) -> None:
    sequenced(case)
    for row in case.tables["batches"]:
        if row["base"] >= 3:
            row.update(producer_epoch=1, base_sequence=row["base"] - 3 + first_sequence)


def epoch_begun(case: Case) -> None:
    _second_epoch(case, 0)


def epoch_begun_in_the_middle(case: Case) -> None:
    _second_epoch(case, 3)


def epoch_falls(case: Case) -> None:
    _second_epoch(case, 0)
    last = max(row["base"] for row in case.tables["batches"])
    _on_one(case, last, producer_epoch=0, base_sequence=3)


def _told(case: Case, story: str) -> None:
    """story: by offset of which transaction a batch is, or that it is a marker; beyond its end all are markers."""
    sends = [line for line in case.history if line.get("f") == "send" and line["type"] == "invoke"]
    sent = {value: line for line in sends for value in line["values"]}
    sequences: dict[str, int] = {}
    for row in case.tables["batches"]:
        what, node = story[row["base"] : row["base"] + 1] or "M", row["node"]
        row.update(producer_id=7, producer_epoch=0)
        if what == "M":
            row.update(transactional=True, control=True, marker="abort", values=[], base_sequence=-1)
            continue
        row.update(transactional=True, base_sequence=sequences.get(node, 0))
        sequences[node] = sequences.get(node, 0) + 1
        sent[row["values"][0]]["txn"] = int(what)


def in_transactions(case: Case) -> None:
    """One marker is written again."""
    _told(case, "11M2MM3")


def parted(case: Case) -> None:
    """One replica's marker commits what the others' abort."""
    _told(case, "11M2MM3")
    _on_one(case, 2, marker="commit")


def committed_unasked(case: Case) -> None:
    """Nobody asked to commit the first transaction."""
    _told(case, "11M2MM3")
    for row in case.tables["batches"]:
        if row["base"] == 2:
            row["marker"] = "commit"


def late_on_output(case: Case) -> None:
    """A batch after a marker of a later epoch, in the topic that processors write to."""
    _told(case, "1M2M3M")
    batch, marker = (next(row for row in case.tables["batches"] if row["base"] == base) for base in (0, 1))
    topic, _, number = batch["p"].rpartition("-")
    where = {"p": f"{topic}{OUT}-{number}"}
    case.tables["batches"] += [
        {**marker, **where, "base": 0, "last": 0, "file_position": 0, "producer_epoch": 1},
        {**batch, **where, "base": 1, "last": 1, "file_position": 70, "values": []},
    ]


def two_open(case: Case) -> None:
    """No marker parts the first two."""
    _told(case, "112M2MM")


def ended_twice(case: Case) -> None:
    """The second marker of the first transaction ended the next one."""
    _told(case, "1M2M2M")


def late_batch(case: Case) -> None:
    """The coordinator had raised the epoch, and the producer went on."""
    _told(case, "1M2M3M")
    for row in case.tables["batches"]:
        if row["base"] == 3:
            row["producer_epoch"] = 1


def outside(case: Case) -> None:
    _told(case, "11M22MM")
    _on_one(case, 4, transactional=False)


def old_marker(case: Case) -> None:
    """Of an epoch that was over."""
    _told(case, "1M2M3M")
    for row in case.tables["batches"]:
        if row["base"] >= 2:
            row["producer_epoch"] = 1
        if row["base"] >= 2 and not row["control"]:
            row["base_sequence"] -= 1
    last = max(row["base"] for row in case.tables["batches"])
    _on_one(case, last, producer_epoch=0, control=True, marker="abort", values=[], base_sequence=-1)
