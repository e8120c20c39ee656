"""Files that are no history of Jepsen's Kafka workload: refused with the line, what stands there, and what should."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.exchange.operations import ForeignHistoryError, Poll, Send, read_history


def _op(index: int, process: object, kind: str, f: str, value: str, more: str = "") -> str:
    return f"{{:index {index}, :time {index}, :type :{kind}, :process {process}, :f :{f}, :value {value}{more}}}\n"


GOOD = [
    _op(0, 0, "invoke", "send", "[[:send 3 7]]"),
    _op(1, 1, "invoke", "txn", "[[:poll] [:send 4 1]]"),
    _op(2, 0, "ok", "send", "[[:send 3 [9 7]]]"),
    _op(3, 1, "ok", "txn", "[[:poll {3 [[9 7]]}] [:send 4 [nil 1]]]", ", :rebalance-log [{:keys [3]}]"),
    _op(4, ":nemesis", "info", "kill", "nil"),
    _op(5, 2, "invoke", "assign", "[3 4]", ", :seek-to-beginning? true"),
]

Lines = list[str]


def _changed(position: int, old: str, new: str) -> Lines:
    assert old in GOOD[position]
    return [*GOOD[:position], GOOD[position].replace(old, new), *GOOD[position + 1 :]]


BAD: dict[str, tuple[Lines, str]] = {
    "empty": ([], "no operation in it: should be a history of Jepsen's Kafka workload"),
    "torn": ([*GOOD[:2], GOOD[2][:30]], "line 3: the text ends within what '{' on line 3 began"),
    "not a map": ([*GOOD[:1], "[:send 1 2]\n"], "line 2: operation 1: [:send 1 2], should be a map"),
    "of another workload": (
        [_op(0, 0, "invoke", "read", "nil")],
        "line 1: operation 0: :f :read of a client, should be one of :poll, :send, :txn, :assign, :subscribe",
    ),
    "of list-append": (
        [_op(0, 0, "invoke", "txn", "[[:append 3 1]]")],
        "[:append 3 1], should be [:send k v] or [:poll]",
    ),
    "index twice": (
        _changed(2, ":index 2", ":index 1"),
        "line 3: operation 2: :index 1, should be 2: it stands there twice",
    ),
    "index missing": (_changed(2, ":index 2", ":index 4"), ":index 4, should be 2: operations are missing"),
    "index in some": (
        [GOOD[0].replace(":index 0, ", ""), *GOOD[1:]],
        "line 2: operation 1: :index 1, though the first operation has none",
    ),
    "index no number": (_changed(1, ":index 1", ':index "1"'), ':index "1", should be a whole number from 0'),
    "no time": (_changed(1, ":time 1,", ""), "line 2: operation 1: no :time, should be a whole number from 0"),
    "time no number": (_changed(1, ":time 1,", ":time 1.5,"), ":time 1.5, should be a whole number from 0"),
    "time goes back": (
        _changed(3, ":time 3,", ":time 0,"),
        "line 4: operation 3: :time 0, should be at least 1, when it was invoked",
    ),
    "no type": (_changed(1, ":type :invoke, ", ""), "no :type, should be a keyword"),
    "type unknown": (
        _changed(1, ":type :invoke", ":type :done"),
        ":type :done, should be one of :invoke, :ok, :fail, :info",
    ),
    "no process": (_changed(1, ":process 1, ", ""), "no :process, should be a whole number from 0, or :nemesis"),
    "process negative": (_changed(1, ":process 1", ":process -1"), ":process -1, should be a whole number from 0"),
    "nemesis ok": (_changed(4, ":type :info", ":type :ok"), ":type :ok of process :nemesis, should be :info"),
    "two open": (
        [*GOOD[:1], _op(1, 0, "invoke", "poll", "[[:poll]]")],
        "line 2: operation 1: process 0 invokes :poll, while its :send of operation 0 is open",
    ),
    "completion alone": (
        [*GOOD[:1], _op(1, 5, "ok", "poll", "[[:poll {}]]")],
        "line 2: operation 1: :ok of process 5, which has no open operation: should follow its :invoke",
    ),
    "completion twice": (
        [GOOD[0], _op(1, 0, "ok", "send", "[[:send 3 [9 7]]]"), _op(2, 0, "ok", "send", "[[:send 3 [9 7]]]")],
        "line 3: operation 2: :ok of process 0, which has no open operation",
    ),
    "completion of another": (
        [GOOD[0], _op(1, 0, "ok", "poll", "[[:poll {}]]")],
        ":f :poll, should be :send, which process 0 invoked in operation 0",
    ),
    "completion says another": (
        _changed(2, "[9 7]", "[9 8]"),
        ":value [[:send 3 [9 8]]], should complete the micro-operations [[:send 3 7]] of the operation with index 0",
    ),
    "completion says nothing": (_changed(2, "[[:send 3 [9 7]]]", "nil"), ":value nil, should be a vector of"),
    "sent twice": (
        [*GOOD[:4], _op(4, 1, "invoke", "send", "[[:send 3 7]]")],
        "line 5: operation 4: value 7 of key 3 was sent before, by the operation with index 0",
    ),
    "sent twice at once": (
        [_op(0, 0, "invoke", "send", "[[:send 3 7] [:send 3 7]]")],
        "value 7 of key 3 was sent before",
    ),
    "key no number": (_changed(0, "[:send 3 7]", "[:send :x 7]"), "key :x, should be a whole number of 64 bits"),
    "value no number": (_changed(0, "[:send 3 7]", '[:send 3 "7"]'), 'value of key 3 "7", should be a whole number'),
    "value too large": (
        _changed(0, "[:send 3 7]", f"[:send 3 {1 << 63}]"),
        f"value of key 3 {1 << 63}, should be a whole number of 64 bits",
    ),
    "offset no number": (_changed(2, "[9 7]", "[:a 7]"), "offset of key 3 :a, should be a whole number from 0"),
    "offset negative": (_changed(2, "[9 7]", "[-1 7]"), "offset of key 3 -1, should be a whole number from 0"),
    "offset true": (_changed(2, "[9 7]", "[true 7]"), "offset of key 3 true, should be a whole number from 0"),
    "offset of an invocation": (
        _changed(0, "[:send 3 7]", "[:send 3 [9 7]]"),
        "[:send 3 [9 7]], should be [:send 3 v]",
    ),
    "triple": (_changed(2, "[9 7]", "[9 7 1]"), "[:send 3 [9 7 1]], should be [:send 3 [offset v]]"),
    "result of an invocation": (_changed(1, "[:poll]", "[:poll {}]"), "[:poll {}], should be [:send k v] or [:poll]"),
    "poll no map": (
        _changed(3, "{3 [[9 7]]}", "[[9 7]]"),
        "result of a poll [[9 7]], should be a map {k [[offset v] …]}",
    ),
    "poll no pairs": (_changed(3, "[[9 7]]}", "[9 7]}"), "record of key 3 9, should be [offset v]"),
    "poll no vector": (_changed(3, "[[9 7]]}", "9}"), "records of key 3 9, should be a vector [[offset v] …]"),
    "poll key": (_changed(3, "{3 [[9 7]]}", "{:x [[9 7]]}"), "key :x, should be a whole number"),
    "poll key a text": (_changed(3, "{3 [[9 7]]}", "{:3 [[9 7]]}"), "key :3, should be a whole number"),
    "send in a poll": ([_op(0, 0, "invoke", "poll", "[[:send 1 1]]")], "should hold no [:send …], for :f is :poll"),
    "poll in a send": ([_op(0, 0, "invoke", "send", "[[:poll]]")], "should hold no [:poll …], for :f is :send"),
    "assign no vector": (_changed(5, "[3 4]", "3"), ":value 3, should be a vector of keys"),
    "rebalance log": (_changed(3, "[{:keys [3]}]", "[3]"), ":rebalance-log [3], should be a vector of maps with :keys"),
    "json": (['{"index": 0, "type": "invoke",\n'], "line 1: not JSON"),
    "json names twice": (['{"index": 0, "index": 1}\n'], "line 1: not JSON: an object names 'index' twice"),
    "json nests": (['{"index": ' + "[" * 100_000 + "\n"], "line 1: not JSON"),
    "json array torn": (['[{"index": 0},\n', '{"index": 1,\n'], "line 3: not JSON"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_history_is_refused_by_what_stands_where(name: str, tmp_path: Path) -> None:
    lines, told = BAD[name]
    path = tmp_path / "history.edn"
    path.write_text("".join(lines))
    with pytest.raises(ForeignHistoryError) as caught:
        read_history(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert told in str(caught.value), str(caught.value)


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ForeignHistoryError, match="cannot be read"):
        read_history(tmp_path / "nowhere.edn")
    (tmp_path / "bytes").write_bytes(b"{:index 0 \xff}")
    with pytest.raises(ForeignHistoryError, match=r"not text in UTF-8 \(byte 10\)"):
        read_history(tmp_path / "bytes")


AS_JSON = [
    '{"index": 0, "time": 0, "type": "invoke", "process": 0, "f": "send", "value": [["send", 3, 7]]}',
    '{"index": 1, "time": 1, "type": "invoke", "process": 1, "f": "txn", "value": [["poll"], ["send", 4, 1]]}',
    '{"index": 2, "time": 2, "type": "ok", "process": 0, "f": "send", "value": [["send", 3, [9, 7]]]}',
    '{"index": 3, "time": 3, "type": "ok", "process": 1, "f": "txn", '
    '"value": [["poll", {"3": [[9, 7]]}], ["send", 4, [null, 1]]], "rebalance-log": [{"keys": [3]}]}',
    '{"index": 4, "time": 4, "type": "info", "process": "nemesis", "f": "kill", "value": null}',
    '{"index": 5, "time": 5, "type": "invoke", "process": 2, "f": "assign", "value": [3, 4], '
    '"seek-to-beginning?": true}',
]

SHAPES = {
    "lines": "".join(GOOD),
    "vector": "; a comment\n[" + " ".join(GOOD) + "]\n",
    "records": "".join(f"#jepsen.history.Op{line}" for line in GOOD),
    "without indices": "".join(line.replace(f":index {nth}, ", "") for nth, line in enumerate(GOOD)),
    "json lines": "\n".join(AS_JSON) + "\n\n",
    "json array": "[\n" + ",\n".join(AS_JSON) + "\n]\n",
    "json with colons": "\n".join(
        line.replace('"invoke"', '":invoke"').replace('"poll"', '":poll"') for line in AS_JSON
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_history_is_the_same_in_every_shape(shape: str, tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text(SHAPES[shape])
    history = read_history(path)
    assert history.completion == {0: 2, 1: 3}
    first, second, _, fourth, nemesis, assign = history.operations
    assert (first.index, first.process, first.type, first.f, first.micro) == (0, 0, "invoke", "send", [Send(3, 7)])
    assert second.micro == [Poll(), Send(4, 1)]
    assert fourth.micro == [Poll({3: [(9, 7)]}), Send(4, 1, None)]
    assert fourth.rebalanced == {3}
    assert (nemesis.process, nemesis.process_name, nemesis.f) == (None, "nemesis", "kill")
    assert (assign.keys, assign.from_beginning) == ([3, 4], True)
