from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest

from harness.nodes.base import Completed
from harness.plan.plan import ScriptStep
from harness.plan.toml_source import PlanError
from nemesis.script import Cleared, Script, ScriptFailed, Sent, Shown, Told
from nemesis.script_steps import AwaitEvent, DeleteRecords, Inject, ListOffsets, Poll, Send, WaitIsr, parse_script
from tests.support.fake_cluster import FakeNode, FakeView, Lines, Time


class Logged(FakeNode):
    """A node whose event log is a text."""

    log = ""

    def run(
        self,
        argv: Sequence[str],
        *,
        check: bool = True,
        timeout_s: float = 30.0,
        input_text: str | None = None,
    ) -> Completed:
        if argv[0] == "tail":
            return Completed(tuple(argv), 0, self.log[int(argv[2]) - 1 :], "")
        if argv[0] == "stat":
            return Completed(tuple(argv), 0, f"{len(self.log)}\n", "")
        return super().run(argv, check=check, timeout_s=timeout_s, input_text=input_text)


class Sends:
    """A sender that keeps what it was asked, and gives values from 100."""

    def __init__(self, outcome: str = "ok") -> None:
        self.asked: list[tuple[int, int, int, str | None]] = []
        self.outcome = outcome

    def send(self, partition: int, count: int, acks: int, node: str | None) -> Sent:
        self.asked.append((partition, count, acks, node))
        first = 100 + sum(asked[1] for asked in self.asked[:-1])
        error = None if self.outcome == "ok" else "timeout"
        return Sent(self.outcome, tuple(range(first, first + count)), 0, error)


class Reads:
    """A reader that gives these outcomes, one after another, the last one again."""

    def __init__(self, shown: Sequence[Shown] = (), told: Sequence[Told] = ()) -> None:
        self.asked: list[tuple[int, object, str | None]] = []
        self._shown, self._told = list(shown), list(told)
        self.cleared = Cleared("ok", 3, None)

    def poll(self, partition: int, position: int, node: str | None) -> Shown:
        self.asked.append((partition, position, node))
        return self._shown.pop(0) if len(self._shown) > 1 else self._shown[0]

    def list_offsets(self, partition: int, of: str, node: str | None) -> Told:
        self.asked.append((partition, of, node))
        return self._told.pop(0) if len(self._told) > 1 else self._told[0]

    def delete_records(self, partition: int, before: int, node: str | None) -> Cleared:
        self.asked.append((partition, before, node))
        return self.cleared


def step(do: str, **params: object) -> ScriptStep:
    return ScriptStep(do, params, "kip.toml:7")


def script(
    steps: Sequence[ScriptStep],
    view: FakeView,
    time: Time | None = None,
    sends: Sends | None = None,
    reads: Reads | None = None,
) -> tuple[Script, Lines]:
    lines = Lines()
    return Script(steps, view, lines, sends or Sends(), reader=reads, clock_s=time or Time()), lines


def view_with_logs(logs: Mapping[str, str] | None = None) -> FakeView:
    view = FakeView()
    view.brokers = [Logged(f"n{i}", f"10.0.0.{i}") for i in (1, 2, 3)]
    for node in view.brokers:
        assert isinstance(node, Logged)
        node.log = (logs or {}).get(node.name, "")
    return view


def test_parse_script_defaults_are_filled_in() -> None:
    assert parse_script(
        [
            step("send", names=["m1"]),
            step("poll"),
            step("poll", position=3, to=2, finds=["m1"], expect="any", timeout_s=5),
            step("list-offsets"),
            step("list-offsets", of="earliest", to=1, reaches=2, expect="fail"),
            step("delete-records"),
            step("delete-records", before=7, to=3, expect="any"),
            step("isolate", broker=2, **{"from": "brokers"}),
            step("wait-isr", brokers=[3, 1], timeout_s=5),
            step("wait-isr", brokers=[3], partition="all"),
            step("await-event", broker=3, event="fetch_sent", match={"leader": 2}, since="last-fault"),
        ],
        3,
        1,
    ) == (
        Send(0, ("m1",), -1, None, "ok"),
        Poll(0, 0, None, (), "ok", 30.0),
        Poll(0, 3, 2, ("m1",), "any", 5.0),
        ListOffsets(0, "latest", None, 0, "ok", 30.0),
        ListOffsets(0, "earliest", 1, 2, "fail", 30.0),
        DeleteRecords(0, 0, None, "ok"),
        DeleteRecords(0, 7, 3, "any"),
        Inject("isolate", 2, {"scope": "brokers"}),
        WaitIsr(0, frozenset({1, 3}), 5.0),
        WaitIsr(None, frozenset({3}), 30.0),
        AwaitEvent(3, "fetch_sent", {"leader": 2}, "last-fault", 30.0),
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            step("sleep", s=3),
            r"kip.toml:7: script.do: 'sleep' is not a verb; allowed: send, poll, list-offsets, delete-records, kill",
        ),
        (step("kill"), r"kip.toml:7: script.broker: missing; it must be a broker id from 1 to 3"),
        (step("kill", broker=4), r"script.broker: 4 is not a broker id from 1 to 3"),
        (step("kill", broker=True), r"script.broker: True is not a broker id"),
        (step("kill", broker=1, when="now"), r"script.when: this verb has no such key"),
        (step("send", names=[]), r"script.names: \[\] is not a list of record names"),
        (step("send", names=["a"], acks="most"), r"script.acks: 'most' is not one of all, 1, 0"),
        (step("send", names=["a"], partition=2), r"script.partition: 2 is not from 0 to 1"),
        (step("poll", position=-1), r"script.position: -1 is not an offset, 0 or more"),
        (step("poll", finds="m1"), r"script.finds: 'm1' is not a list of record names"),
        (step("poll", finds=["m9"]), r"script.finds: no step before sends 'm9'"),
        (step("list-offsets", of="last"), r"script.of: 'last' is not one of latest, earliest"),
        (step("delete-records", before=-1), r"script.before: -1 is not an offset, 0 or more"),
        (step("list-offsets", reaches=True), r"script.reaches: True is not an offset"),
        (step("wait-isr", brokers=[0]), r"script.brokers: \[0\] is not a list of broker ids"),
        (step("wait-leader", broker=1, partition="all"), r"script.partition: 'all' is not from 0 to 1"),
        (step("bitflip", broker=1, seed=-1), r"script.seed: -1 is not a whole number"),
        (step("wait-leader", broker=1, timeout_s=0), r"script.timeout_s: 0 is not a number above 0"),
        (step("isolate", broker=1, **{"from": "world"}), r"script.from: 'world' is not one of all, brokers"),
        (step("clock-step", broker=1), r"script.offset_s: missing"),
    ],
)
def test_parse_script_wrong_step_names_place_key_value_and_what_is_allowed(given: ScriptStep, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        parse_script([given], 3, 2)


def test_parse_script_name_sent_twice_is_refused() -> None:
    with pytest.raises(PlanError, match="'m1' was sent before"):
        parse_script([step("send", names=["m1"]), step("send", names=["m1"])], 3, 1)


def test_run_send_keeps_the_values_of_names_and_records_the_step() -> None:
    sends = Sends()
    run, lines = script(
        [step("send", names=["m1", "m2"]), step("send", names=["m3"], acks=1, to=2, partition=1)],
        FakeView(),
        sends=sends,
    )
    run.run(Time())
    assert sends.asked == [(0, 2, -1, None), (1, 1, 1, "n2")]
    assert run.values == {"m1": 100, "m2": 101, "m3": 102}
    assert [line["f"] for line in lines.lines] == ["step", "step"]
    assert json.loads(str(lines.lines[0]["result_json"]))["values"] == [100, 101]


def test_run_leaves_out_the_steps_behind_the_one_after_which_it_is_enough() -> None:
    sends = Sends()
    steps = [step("send", names=["m1"]), step("send", names=["m2"], partition=1), step("send", names=["m3"])]
    run, lines = script(steps, FakeView(), sends=sends)
    run.run(Time(), lambda: len(sends.asked) == 2)
    assert [partition for partition, *_ in sends.asked] == [0, 1]
    assert [line["f"] for line in lines.lines] == ["step", "step"]
    assert run.coming() == ""


def test_run_poll_is_repeated_until_it_has_what_it_is_to_find() -> None:
    early, whole = Shown("ok", (100,), 1, 1, None), Shown("ok", (100, 101, None), 3, 3, None)
    reads = Reads([Shown("fail", (), 0, -1, "NOT_LEADER_OR_FOLLOWER"), early, whole])
    steps = [step("send", names=["m1", "m2"]), step("poll", finds=["m2"], to=2), step("poll", position=1)]
    run, lines = script(steps, FakeView(), reads=reads)
    run.run(Time())
    assert reads.asked == [(0, 0, "n2")] * 3 + [(0, 1, None)]
    found = json.loads(str(lines.lines[1]["result_json"]))
    assert found == {"outcome": "ok", "found": ["m1", "m2"], "next_position": 3, "hw": 3}


def test_run_poll_that_never_finds_it_fails_with_what_it_read() -> None:
    time = Time()
    run, _ = script(
        [step("send", names=["m1"]), step("poll", finds=["m1"], timeout_s=2)],
        FakeView(),
        time,
        reads=Reads([Shown("ok", (7,), 1, 1, None)]),
    )
    with pytest.raises(ScriptFailed, match=r"after 2 s a poll from 0 came out ok \(None\), values \[7\]"):
        run.run(time)


def test_run_list_offsets_waits_for_the_end_it_is_to_reach() -> None:
    reads = Reads(told=[Told("ok", 1, None), Told("fail", -1, "OFFSET_NOT_AVAILABLE"), Told("ok", 4, None)])
    run, lines = script([step("list-offsets", reaches=3)], FakeView(), reads=reads)
    run.run(Time())
    assert len(reads.asked) == 3
    assert json.loads(str(lines.lines[0]["result_json"])) == {"outcome": "ok", "offset": 4}


def test_run_list_offsets_that_is_to_fail_is_content_with_an_error_only() -> None:
    reads = Reads(told=[Told("ok", 1, None), Told("fail", -1, "OFFSET_NOT_AVAILABLE")])
    run, _ = script([step("list-offsets", of="earliest", expect="fail")], FakeView(), reads=reads)
    run.run(Time())
    assert reads.asked == [(0, "earliest", None)] * 2


def test_run_delete_records_is_one_request_whose_outcome_is_said() -> None:
    reads = Reads()
    run, lines = script([step("delete-records", before=3, to=2)], FakeView(), reads=reads)
    run.run(Time())
    assert reads.asked == [(0, 3, "n2")]
    assert json.loads(str(lines.lines[0]["result_json"])) == {"outcome": "ok", "low_watermark": 3}
    reads.cleared = Cleared("info", -1, "REQUEST_TIMED_OUT")
    run, _ = script([step("delete-records", before=3, expect="any")], FakeView(), reads=reads)
    run.run(Time())
    run, _ = script([step("delete-records", before=3)], FakeView(), reads=reads)
    with pytest.raises(ScriptFailed, match=r"deleting what lies below 3 came out info \(REQUEST_TIMED_OUT\)"):
        run.run(Time())


@pytest.mark.parametrize("do", ["poll", "delete-records"])
def test_script_that_reads_without_a_reader_is_refused(do: str) -> None:
    with pytest.raises(PlanError, match=f"kip.toml:7: script.do: '{do}': this workload has no reads for scripts"):
        script([step(do)], FakeView())


def test_run_send_that_comes_out_otherwise_fails_with_place_and_error() -> None:
    run, lines = script([step("send", names=["m1"])], FakeView(), sends=Sends("info"))
    with pytest.raises(ScriptFailed, match=r"kip.toml:7: step 0 \(send\): sending m1 came out info \(timeout\)"):
        run.run(Time())
    assert lines.lines[-1]["error"] is not None


def test_run_paused_broker_killed_ends_the_pause_and_start_brings_it_back() -> None:
    view = view_with_logs()
    run, lines = script([step("pause", broker=2), step("kill", broker=2), step("start", broker=2)], view)
    run.run(Time())
    faults = [(line["f"], line["fault"], line["observed"]) for line in lines.lines if line["f"] != "step"]
    assert faults == [
        ("start", "pause", True),
        ("start", "kill", True),
        ("stop", "pause", True),
        ("stop", "kill", True),
    ]
    assert view.node("n2").state == "S"
    assert run.active() == []


def test_run_fault_without_effect_fails() -> None:
    view = view_with_logs()
    view.node("n1").state = None
    run, _ = script([step("kill", broker=1)], view)
    with pytest.raises(ScriptFailed, match="no effect: n1: no broker was running"):
        run.run(Time())


def test_run_start_of_a_broker_that_was_not_hurt_fails() -> None:
    run, _ = script([step("start", broker=1)], FakeView())
    with pytest.raises(ScriptFailed, match="no kill or stop to take back on n1"):
        run.run(Time())


def test_run_wait_leader_reached_goes_on_and_never_reached_names_the_leader() -> None:
    time = Time()
    run, _ = script([step("wait-leader", broker=2), step("wait-leader", broker=1, timeout_s=3)], FakeView(), time)
    with pytest.raises(ScriptFailed, match=r"step 1 .*after 3 s the leader is n2"):
        run.run(time)
    assert 3.0 <= time.now_s < 3.2


def test_run_wait_isr_needs_exactly_these_brokers() -> None:
    time = Time()
    run, _ = script(
        [step("wait-isr", brokers=[1, 2, 3]), step("wait-isr", brokers=[2, 3], timeout_s=1)], FakeView(), time
    )
    with pytest.raises(ScriptFailed, match="step 1 "):
        run.run(time)


def test_run_wait_isr_of_all_partitions_waits_for_the_last_of_them() -> None:
    time, view = Time(), FakeView()
    run, _ = script([step("wait-isr", brokers=[1, 2, 3], partition="all", timeout_s=1)], view, time)
    with pytest.raises(ScriptFailed, match=r"after 1 s the isr is \[\['n2', 'n1', 'n3'\], \[\]\]"):
        run.run(time)
    view.isrs[1] = ("n3", "n2", "n1")
    run, _ = script([step("wait-isr", brokers=[1, 2, 3], partition="all", timeout_s=1)], view, time)
    run.run(time)


class Damaged(Logged):
    """A node on which the program that damages files has done so."""

    def run(
        self, argv: Sequence[str], *, check: bool = True, timeout_s: float = 30.0, input_text: str | None = None
    ) -> Completed:
        if "-c" in argv and argv[0] == self.python:
            return Completed(tuple(argv), 0, json.dumps({"file": "hw-0/x.log", "seen": True}), "")
        return super().run(argv, check=check, timeout_s=timeout_s, input_text=input_text)


def drawn_seeds(run_seed: int, *steps: ScriptStep) -> list[object]:
    """What the damage of each step was drawn from."""
    view, lines = FakeView(), Lines()
    view.brokers = [Damaged(f"n{i}", f"10.0.0.{i}") for i in (1, 2, 3)]
    Script(steps, view, lines, Sends(), seed=run_seed, clock_s=Time()).run(Time())
    return [line["params"]["seed"] for line in lines.lines if line["f"] == "start"]  # type: ignore[index]


def test_run_damage_without_a_seed_is_drawn_from_the_seed_of_the_run_and_the_step() -> None:
    steps = [step("bitflip", broker=1), step("bitflip", broker=1), step("truncate-file", broker=1, seed=7)]
    first, second, given = drawn_seeds(3, *steps)
    assert len({first, second, *drawn_seeds(4, *steps)[:2]}) == 4
    assert given == 7
    assert drawn_seeds(3, *steps) == [first, second, given]


def test_run_damage_that_may_take_the_only_copy_is_refused() -> None:
    view = FakeView()
    view.copies = 1
    run, lines = script([step("truncate-file", broker=1)], view)
    with pytest.raises(ScriptFailed, match=r"truncate-file is unavailable: .* the only copy .* min\.insync\.replicas"):
        run.run(Time())
    assert not [line for line in lines.lines if line["f"] == "start"]


def line(**fields: object) -> str:
    return json.dumps(fields) + "\n"


def test_run_await_event_finds_the_line_with_event_and_fields() -> None:
    log = line(e="fetch_sent", leader=1) + line(e="hw", p="hw-0") + line(e="fetch_sent", leader=2, rid="x") + '{"e":'
    run, lines = script(
        [step("await-event", broker=3, event="fetch_sent", match={"leader": 2})], view_with_logs({"n3": log})
    )
    run.run(Time())
    assert '"rid": "x"' in str(lines.lines[0]["result_json"])


def test_run_await_event_since_last_fault_does_not_see_older_lines() -> None:
    time, view = Time(), view_with_logs({"n3": line(e="fetch_sent", leader=2)})
    steps = [
        step("pause", broker=1),
        step("await-event", broker=3, event="fetch_sent", since="last-fault", timeout_s=1),
    ]
    run, _ = script(steps, view, time)
    with pytest.raises(ScriptFailed, match="after 1 s the fetch_sent event is None"):
        run.run(time)


def test_run_stopped_does_nothing_more() -> None:
    run, lines = script([step("kill", broker=1)], view_with_logs())
    run.run(Time(end_s=0.0))
    assert lines.lines == []


def test_coming_is_the_step_under_way() -> None:
    told: list[str] = []

    class Asked(Sends):
        def send(self, partition: int, count: int, acks: int, node: str | None) -> Sent:
            told.append(made.coming())
            return super().send(partition, count, acks, node)

    made, _ = script([step("send", names=["m1"]), step("send", names=["m2"])], view_with_logs(), sends=Asked())
    assert made.coming() == ""
    made.run(Time())
    assert told == ["step 1 of 2: send", "step 2 of 2: send"]
    assert made.coming() == ""
