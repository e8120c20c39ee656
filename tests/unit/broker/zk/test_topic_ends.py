"""The end of a deletion in ZooKeeper: all of the topic that was meant, or an error; never a part of the next one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from broker.core.controller.cluster_state import ControllerMoved, StoreUnavailable, Topic
from broker.core.controller.stored import Term
from broker.zk import paths, topic_codecs
from broker.zk.controller_store import ZkControllerStore
from broker.zk.operations import Delete, Operation
from tests.support.znodes import Znodes

pytestmark = pytest.mark.guarantee("controller-writes")

ID, OTHER = "B" * 21 + "A", "C" * 21 + "A"
TERM = Term(1, 0)


def put_topic(znodes: Znodes, topic_id: str, partitions: int = 1) -> None:
    znodes.put(paths.topic("t"), topic_codecs.encode_topic(Topic("t", topic_id, {0: (1,)})))
    znodes.put(paths.topic_partitions("t"))
    for number in range(partitions):
        znodes.put(f"{paths.topic_partitions('t')}/{number}")
        znodes.put(f"{paths.topic_partitions('t')}/{number}/state", b"{}")


def marked(partitions: int = 1) -> Znodes:
    znodes = Znodes()
    for path in (paths.CONTROLLER_EPOCH, paths.TOPICS, paths.CONFIG_TOPICS, paths.DELETE_TOPICS):
        znodes.put(path)
    put_topic(znodes, ID, partitions)
    znodes.put(paths.topic_config("t"), b"{}")
    znodes.put(paths.delete_topic("t"))
    return znodes


def finish(znodes: Znodes, topic_id: str = ID, term: Term = TERM) -> None:
    ZkControllerStore(znodes.client, lambda: 0).finish_deletion(term, "t", topic_id)


def of_topic(znodes: Znodes) -> set[str]:
    return {path for path in znodes.nodes if path.startswith((paths.topic("t"), paths.topic_config("t")))}


@pytest.mark.parametrize("partitions", [1, 200])
def test_znodes_go_children_first_in_whatever_order_they_were_read(partitions: int) -> None:
    znodes = marked(partitions)
    finish(znodes)
    assert of_topic(znodes) == set()
    assert znodes.children(paths.DELETE_TOPICS) == []


def test_znodes_below_the_mark_do_not_keep_the_topic() -> None:
    znodes = marked()
    znodes.put(f"{paths.delete_topic('t')}/why/who")
    znodes.put(f"{paths.delete_topic('t')}/why")
    finish(znodes)
    assert of_topic(znodes) == set()
    assert znodes.children(paths.DELETE_TOPICS) == []


def test_end_that_is_refused_while_the_topic_is_there_is_none() -> None:
    znodes = marked()

    def mark_is_taken_back(operations: Sequence[Operation]) -> None:
        znodes.nodes.pop(paths.delete_topic("t"), None)

    before = of_topic(znodes)
    znodes.before = mark_is_taken_back
    with pytest.raises(StoreUnavailable, match="not deleted"):
        finish(znodes)
    assert of_topic(znodes) == before
    finish(znodes)  # what asks for it anew
    assert of_topic(znodes) == set()


def test_refusal_of_a_part_ends_it_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.zk.controller_store._DELETES_PER_MULTI", 4)
    znodes = marked(partitions=3)
    multis: list[list[str]] = []
    stranger = f"{paths.topic_partitions('t')}/0/new"

    def somebody_writes_below(operations: Sequence[Operation]) -> None:
        multis.append([operation.path for operation in operations if isinstance(operation, Delete)])
        if not multis[1:]:
            znodes.put(stranger)

    znodes.before = somebody_writes_below
    with pytest.raises(StoreUnavailable, match="not-empty"):
        finish(znodes)
    assert len(multis) == 1
    assert paths.topic("t") in znodes.nodes
    assert paths.delete_topic("t") in znodes.nodes, "it is begun anew"
    finish(znodes)
    assert of_topic(znodes) == set()


def test_topic_whose_id_cannot_be_read_any_more_is_not_told_as_gone() -> None:
    znodes = marked()

    def garble(operations: Sequence[Operation]) -> None:
        znodes.put(paths.topic("t"), b"{")
        znodes.nodes.pop(paths.delete_topic("t"), None)

    znodes.before = garble
    with pytest.raises(StoreUnavailable, match="not deleted"):
        finish(znodes)


@pytest.mark.parametrize("mark", [False, True])
def test_topic_that_was_gone_when_the_write_was_refused_is_told_as_gone_with_its_mark_alone(mark: bool) -> None:
    znodes = marked()

    def all_is_gone(operations: Sequence[Operation]) -> None:
        for path in of_topic(znodes):
            del znodes.nodes[path]
        if not mark:
            del znodes.nodes[paths.delete_topic("t")]

    znodes.before = all_is_gone
    if mark:
        with pytest.raises(StoreUnavailable, match="not deleted"):
            finish(znodes)
    else:
        finish(znodes)


def test_end_that_was_carried_out_though_its_response_was_lost_is_told_beside_a_topic_made_anew() -> None:
    znodes = marked()
    multi = znodes.multi

    def again(operations: Sequence[Operation]) -> list[int]:
        multi(operations)
        put_topic(znodes, OTHER, partitions=0)
        return multi(operations)  # refused

    znodes.multi = again  # type: ignore[method-assign]
    finish(znodes)
    assert of_topic(znodes) == {paths.topic("t"), paths.topic_partitions("t")}


@pytest.mark.parametrize("there", [OTHER, ""])
def test_topic_of_another_id_is_not_touched(there: str) -> None:
    znodes = marked()
    put_topic(znodes, there)
    nodes = dict(znodes.nodes)
    with pytest.raises(StoreUnavailable, match="another id"):
        finish(znodes)
    assert znodes.nodes == nodes


def test_rest_of_a_topic_that_is_gone_goes() -> None:
    znodes = marked()
    for path in [path for path in znodes.nodes if path.startswith(paths.topic("t"))]:
        del znodes.nodes[path]
    finish(znodes)
    assert of_topic(znodes) == set()
    assert znodes.children(paths.DELETE_TOPICS) == []


def test_controller_whose_term_is_over_hears_of_that() -> None:
    with pytest.raises(ControllerMoved):
        finish(marked(), term=Term(1, 7))


def test_mark_is_dropped_at_the_version_that_was_read_and_not_unseen() -> None:
    znodes = marked()
    store = ZkControllerStore(znodes.client, lambda: 0)
    assert not store.drop_deletion(TERM, "t"), "it is to be looked at"
    assert store.asked_ids({"t", "u"}) == {"t": (None, ID)}
    znodes.put(paths.delete_topic("t"), b"", version=1)
    assert not store.drop_deletion(TERM, "t")
    assert paths.delete_topic("t") in znodes.nodes
    store.asked_ids({"t"})
    assert store.drop_deletion(TERM, "t")
    assert paths.delete_topic("t") not in znodes.nodes
