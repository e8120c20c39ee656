"""What transactional processes send, whatever the responses: held against rules that every real producer keeps."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from harness.operations.generator import Op
from harness.operations.op import Outcome
from harness.workloads.transactions.client import STEP, Role, Settings
from harness.workloads.transactions.generators import STEP_VALUES
from harness.workloads.transactions.options import Options
from harness.workloads.transactions.processor import ProcessorRole
from harness.workloads.transactions.producer import ProducerRole
from harness.workloads.transactions.requests import Request

SETTINGS = Settings("hw", "hw-out", {}, 4, 100, 3000, 1, Options())
SEEDS = range(40)
STEPS = 400


class Sent:
    """One request and how it came out."""

    def __init__(self, request: Request, outcome: Outcome, error: str | None) -> None:
        self.f, self.fields, self.home = request.f, request.fields, request.home
        self.outcome, self.error = outcome, error

    @property
    def txn(self) -> object:
        return self.fields.get("txn")


def life(role: Role, seed: int, refusals: float) -> Iterator[Sent]:
    """The requests of one process, which is answered at random; none comes out unknown, or it would end."""
    rng = Random(seed)
    for number in range(STEPS):
        values = tuple(range(number * STEP_VALUES, (number + 1) * STEP_VALUES))
        request = role.next(Op(0, 0, STEP, -1, values))
        outcome: Outcome = "fail" if rng.random() < refusals else "ok"
        error = None
        if outcome == "fail":
            error = rng.choice(["CONCURRENT_TRANSACTIONS", "PRODUCER_FENCED", "not-connected", "INVALID_TXN_STATE"])
        request.then(outcome, error, _response(request, number, rng) if outcome == "ok" else {})
        yield Sent(request, outcome, error)


def _response(request: Request, number: int, rng: Random) -> dict[str, object]:
    match request.f:
        case "init_producer":
            return {"producer_id": rng.randrange(10), "producer_epoch": number}
        case "send":
            return {"base_offset": number}
        case "poll":
            return {"next_position": number, "records": []}
        case _:
            return {}


def histories(refusals: float = 0.1) -> Iterator[list[Sent]]:
    for seed in SEEDS:
        yield list(life(ProducerRole(SETTINGS, 1, Random(seed), None), seed, refusals))


def test_sequences_of_a_producer_and_partition_go_on_without_a_gap() -> None:
    for sent in histories():
        next_sequence: dict[tuple[object, ...], int] = {}
        for one in sent:
            if one.f == "send":
                values, sequence = one.fields["values"], one.fields["sequence"]
                assert isinstance(values, list)
                assert isinstance(sequence, int)
                key = (one.fields["producer_id"], one.fields["producer_epoch"], one.home)
                assert sequence == next_sequence.get(key, 0)
                if one.outcome == "ok":
                    next_sequence[key] = sequence + len(values)


def test_commit_is_only_sent_for_a_transaction_without_a_refused_send_unless_its_producer_was_fenced() -> None:
    committed = 0
    for sent in histories():
        for end in (one for one in sent if one.f == "end_txn" and one.fields["commit"]):
            mine = [one for one in sent if one.txn == end.txn]
            refused = [one.error for one in mine if one.f == "send" and one.outcome == "fail"]
            assert not refused or "PRODUCER_FENCED" in [one.error for one in mine]
            committed += not refused
    assert committed > 100


def test_send_goes_to_a_partition_that_was_added_unless_its_producer_was_fenced() -> None:
    for sent in histories():
        for at, one in enumerate(sent):
            if one.f == "send":
                before = [earlier for earlier in sent[:at] if earlier.txn == one.txn]
                assert one.home is not None
                name = f"{one.home[0]}-{one.home[1]}"
                added = [a.fields["partitions"] for a in before if a.f == "add_partitions" and a.outcome == "ok"]
                fenced = "PRODUCER_FENCED" in [earlier.error for earlier in before]
                assert fenced or any(isinstance(names, list) and name in names for names in added)


def test_some_transactions_are_aborted_some_left_open_and_some_zombies_go_on() -> None:
    aborted = left = zombies = 0
    for sent in histories():
        numbers = {one.txn for one in sent if one.f == "add_partitions" and one.outcome == "ok"}
        ends = [one for one in sent if one.f == "end_txn"]
        aborted += sum(not one.fields["commit"] for one in ends)
        left += len(numbers - {one.txn for one in ends})
        fenced_at = {one.txn: at for at, one in reversed(list(enumerate(sent))) if one.error == "PRODUCER_FENCED"}
        zombies += sum(one.f == "send" and at > fenced_at.get(one.txn, STEPS) for at, one in enumerate(sent))
    assert min(aborted, left, zombies) > 10


def test_some_transactions_read_several_partitions_and_write_several() -> None:
    both = 0
    for sent in histories():
        for txn in {one.txn for one in sent if one.f == "end_txn" and one.fields["commit"]}:
            homes = {f: {one.home for one in sent if one.txn == txn and one.f == f} for f in ("poll", "send")}
            both += min(len(homes["poll"]), len(homes["send"])) > 1
    assert both > 100


def test_process_reads_on_where_its_last_poll_ended_or_its_own_sends_of_earlier_transactions_stand() -> None:
    goes_on = 0
    for sent in histories(refusals=0.0):
        known: dict[object, int] = {}
        placed: dict[object, int] = {}
        txn: object = None
        for at, one in enumerate(sent):
            if one.txn is not None and one.txn != txn:
                txn = one.txn
                known |= {home: max(known.get(home, 0), base) for home, base in placed.items()}
                placed = {}
            if one.f == "send":
                placed[one.home] = at
            if one.f == "poll" and one.fields["position"] == known.get(one.home, 0):
                known[one.home] = at
                goes_on += 1
    assert goes_on > 1000


class Inputs:
    """A log of consecutive values, and the offsets that a group has committed in it: a broker that keeps the rules."""

    def __init__(self) -> None:
        self.committed: dict[str, int] = {}
        self.outputs: list[int] = []
        self._offsets: dict[object, dict[str, int]] = {}
        self._sources: dict[object, list[int]] = {}

    def answer(self, request: Request, number: int) -> dict[str, object]:
        """The fields of an ok completion."""
        fields, txn = request.fields, request.fields.get("txn")
        match request.f:
            case "init_producer":
                return {"producer_id": 1, "producer_epoch": number}
            case "fetch_offsets":
                return {"offsets": [{"p": p, "offset": self.committed.get(p, -1)} for p in _list(fields["partitions"])]}
            case "poll":
                position = fields["position"]
                assert isinstance(position, int)
                assert request.home is not None
                first = 1_000_000 * (1 + request.home[1]) + position
                records = [{"offset": position + n, "value": first + n} for n in range(3)]
                return {"next_position": position + 3, "records": records}
            case "send":
                self._sources.setdefault(txn, []).extend(_list(fields["sources"]))
                return {"base_offset": number}
            case "txn_offsets":
                self._offsets[txn] = {one["p"]: one["offset"] for one in _list(fields["offsets"])}
            case "end_txn" if fields["commit"]:
                self.committed.update(self._offsets[txn])
                self.outputs += self._sources[txn]
        return {}


def _list(value: object) -> list[Any]:
    assert isinstance(value, list)
    return value


def test_processor_reflects_each_input_below_the_committed_offset_once_whatever_is_refused() -> None:
    for seed in SEEDS:
        rng, inputs = Random(seed), Inputs()
        role = ProcessorRole(SETTINGS, 1, Random(seed), None)
        for number in range(STEPS):
            first = 10**9 + number * STEP_VALUES
            request = role.next(Op(0, 0, STEP, -1, tuple(range(first, first + STEP_VALUES))))
            if rng.random() < 0.1:
                error = rng.choice(["CONCURRENT_TRANSACTIONS", "not-connected", "UNSTABLE_OFFSET_COMMIT"])
                request.then("fail", error, {})
            else:
                request.then("ok", None, inputs.answer(request, number))
        below = [
            1_000_000 * (1 + int(p.rpartition("-")[2])) + offset
            for p, end in inputs.committed.items()
            for offset in range(end)
        ]
        assert len(below) > 20
        assert sorted(inputs.outputs) == sorted(below)
