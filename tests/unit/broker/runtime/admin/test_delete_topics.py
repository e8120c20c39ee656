"""DeleteTopics, from the request to the answer: by name and by id, and which topic's end an answer speaks of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import pytest

from broker.runtime.admin.delete_topics import DeleteTopicsHandlers
from broker.runtime.requests.request import Request
from broker.wire.api import SUPPORTED, ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from tests.support.fake_loop import FakeLoop
from tests.support.memory_node import FakeSlot

A, B, C = (letter * 21 + "A" for letter in "BCD")
NONE, UNKNOWN_NAME, UNKNOWN_ID = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID
Said = tuple[str | None, str, int, str | None]


class World:
    """ZooKeeper, its worker and the controller: topics as the first and as the last has them. Satisfies their ports."""

    def __init__(self, topics: Mapping[str, str], *, enabled: bool = True) -> None:
        self.topics = dict(topics)
        self.known: dict[str, str] | None = {topic_id: name for name, topic_id in topics.items()}
        self.marks: list[tuple[str, str | None]] = []
        self.found: list[str] = []
        """Of these marks, the ids that the topics had before."""
        self.active = True
        self.before_a_mark: Callable[[], None] = lambda: None
        self.loop = FakeLoop()
        self.handlers = DeleteTopicsHandlers(enabled, self, self, self.loop, lambda: self.active, self.names_of)

    def submit(self, name: str, task: Callable[[], None]) -> None:
        task()

    def topic_id(self, name: str) -> str | None:
        return self.topics.get(name)

    def request_deletion(self, name: str, topic_id: str, *, by_id: bool) -> bool:
        self.found.append(topic_id)
        self.before_a_mark()
        self.marks.append((name, topic_id if by_id else None))
        return True

    def names_of(
        self,
        topic_ids: Collection[str],
        then: Callable[[Mapping[str, str] | None], None],
        wanted: Callable[[], bool],
    ) -> None:
        known = self.known
        found = None if known is None else {id_: known[id_] for id_ in topic_ids if id_ in known}
        self.loop.call_soon(lambda: then(found) if wanted() else None)

    def delete(self, *topics: str | tuple[str | None, str], version: int = 6, timeout_ms: int = 60_000) -> FakeSlot:
        """Each a name, or (name, id)."""
        states = [DeleteTopicState(*((topic, "") if isinstance(topic, str) else topic)) for topic in topics]
        slot = FakeSlot()
        body = DeleteTopicsRequest(
            topics=states if version >= 6 else [],
            topic_names=[str(state.name) for state in states],
            timeout_ms=timeout_ms,
        ).encode(version)
        self.handlers.handle_delete_topics(
            Request(ApiKey.DELETE_TOPICS, version, 1, "", memoryview(bytearray(body)), slot, version >= 4)
        )
        for _ in range(2):  # the controller's answer, and the worker's
            self.loop.run_soon()
        return slot


def by_id(topic_id: str) -> tuple[None, str]:
    return None, topic_id


def said(slot: FakeSlot, version: int = 6) -> list[Said]:
    assert slot.response is not None
    responses = DeleteTopicsResponse.decode(version, slot.response[5 if version >= 4 else 4 :]).responses
    return [(one.name, one.topic_id, one.error_code, one.error_message) for one in responses]


def errors(slot: FakeSlot, version: int = 6) -> list[int]:
    return [code for _, _, code, _ in said(slot, version)]


@pytest.mark.parametrize("version", [4, 6])
def test_deletion_of_too_many_topics_is_refused_as_a_whole(version: int) -> None:
    world = World({})
    for count, error in ((10_000, UNKNOWN_NAME), (10_001, ErrorCode.POLICY_VIOLATION)):
        slot = world.delete(*[f"t{number}" for number in range(count)], version=version)
        assert set(errors(slot, version)) == {error}


def test_names_that_no_topic_has_are_unknown_without_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World({})
    monkeypatch.setattr(world, "topic_id", lambda name: pytest.fail(name))
    assert errors(world.delete("", ".", "..", "a/b", "a\nb", version=4), 4) == [UNKNOWN_NAME] * 5


def test_every_version_deletes_by_name_whichever_topic_has_it() -> None:
    versions = SUPPORTED[ApiKey.DELETE_TOPICS]
    assert versions.last == 6
    for version in range(versions.first, versions.last + 1):
        world = World({"t": A})
        slot = world.delete("t", "u", version=version)
        assert not slot.done
        assert world.marks == [("t", None)]
        assert world.found == [A], "a mark that is there already may be of another"
        world.handlers.on_deleted("t", A)
        assert said(slot, version) == [("t", "", NONE, None), ("u", "", UNKNOWN_NAME, None)]


def test_id_deletes_the_topic_that_has_it_and_the_mark_says_so() -> None:
    world = World({"t": A, "u": B})
    slot = world.delete(by_id(A), by_id(C), "u")
    assert world.marks == [("t", A), ("u", None)]
    world.handlers.on_deleted("t", A)
    assert not slot.done
    world.handlers.on_deleted("u", B)
    assert said(slot) == [("t", A, NONE, None), (None, C, UNKNOWN_ID, None), ("u", "", NONE, None)]


def test_id_that_the_name_has_no_more_deletes_nothing() -> None:
    world = World({"t": A})
    world.topics["t"] = B  # made anew, of which the controller's answer does not know
    assert said(world.delete(by_id(A))) == [(None, A, UNKNOWN_ID, None)]
    del world.topics["t"]
    assert said(world.delete(by_id(A))) == [(None, A, UNKNOWN_ID, None)]
    world.topics["t"] = ""
    assert said(world.delete(by_id(A))) == [(None, A, UNKNOWN_ID, None)]
    assert world.marks == []


def test_name_and_id_together_refuse_the_request_as_kafkas_error_response_does() -> None:
    world = World({"t": A, "u": B})
    refused = ErrorCode.INVALID_REQUEST
    slot = world.delete("u", ("t", A), by_id(C))
    assert said(slot) == [("u", "", refused, None), ("t", A, refused, None), (None, C, refused, None)]
    assert world.marks == []


def test_neither_name_nor_id_is_invalid_by_itself() -> None:
    world = World({"t": A})
    slot = world.delete(by_id(""), by_id(A))
    world.handlers.on_deleted("t", A)
    neither = "Neither topic name nor id were specified."
    assert said(slot) == [(None, "", ErrorCode.INVALID_REQUEST, neither), ("t", A, NONE, None)]


def test_topic_that_is_asked_for_twice_has_one_result_for_each_way() -> None:
    world = World({"t": A})
    slot = world.delete("t", by_id(A), "t", by_id(A))
    assert world.marks == [("t", None), ("t", A)]
    world.handlers.on_deleted("t", A)
    assert said(slot) == [("t", "", NONE, None), ("t", A, NONE, None)]


@pytest.mark.parametrize("way", ["not controller", "not any more", "disabled"])
def test_whole_request_is_refused_with_names_and_ids_as_asked(way: str) -> None:
    world = World({"t": A}, enabled=way != "disabled")
    error = ErrorCode.TOPIC_DELETION_DISABLED if way == "disabled" else ErrorCode.NOT_CONTROLLER
    if way == "not controller":
        world.active = False
    elif way == "not any more":
        world.known = None
    assert said(world.delete("t", by_id(A))) == [("t", "", error, None), (None, A, error, None)]
    if way == "disabled":
        assert errors(world.delete("t", version=2), 2) == [ErrorCode.INVALID_REQUEST]
        assert errors(world.delete("t", ("u", B))) == [error, error], "before it is looked at, as in Kafka"
    assert world.marks == []


def test_request_whose_client_is_gone_marks_nothing() -> None:
    world = World({"t": A})
    slot = FakeSlot()
    slot.open = False
    body = DeleteTopicsRequest([DeleteTopicState(None, A)], timeout_ms=1000).encode(6)
    world.handlers.handle_delete_topics(
        Request(ApiKey.DELETE_TOPICS, 6, 1, "", memoryview(bytearray(body)), slot, True)
    )
    world.loop.run_soon()
    assert not slot.done
    assert world.marks == []


def test_time_out_names_what_is_still_there() -> None:
    world = World({"t": A, "u": B})
    slot = world.delete(by_id(A), "u", timeout_ms=1000)
    world.handlers.on_deleted("u", B)
    world.loop.advance(1000)
    assert said(slot) == [("t", A, ErrorCode.REQUEST_TIMED_OUT, None), ("u", "", NONE, None)]


@pytest.mark.parametrize("asked", ["t", by_id(B)], ids=["by name", "by id"])
def test_end_of_another_topic_of_the_name_answers_nothing(asked: str | tuple[None, str]) -> None:
    world = World({"t": B})
    # The end of the topic before is told late: after the request came, before and after its mark is made.
    world.before_a_mark = lambda: world.handlers.on_deleted("t", A)
    slot = world.delete(asked)
    world.handlers.on_deleted("t", A)
    assert not slot.done, "the t of now is still there"
    world.handlers.on_deleted("t", B)
    assert errors(slot) == [NONE]


@pytest.mark.parametrize("asked", ["t", by_id(A)], ids=["by name", "by id"])
def test_end_that_comes_before_the_loop_hears_of_the_mark_counts(asked: str | tuple[None, str]) -> None:
    world = World({"t": A})
    world.before_a_mark = lambda: world.handlers.on_deleted("t", A)
    assert errors(world.delete(asked)) == [NONE]


def test_topic_without_an_id_ends_with_the_next_end_of_its_name() -> None:
    world = World({"t": ""})
    slot = world.delete("t")
    world.handlers.on_deleted("u", A)
    assert not slot.done
    world.handlers.on_deleted("t", B)
    assert errors(slot) == [NONE]


def test_topic_that_gets_its_id_and_ends_while_it_is_marked_is_told_as_deleted() -> None:
    world = World({"t": ""})

    def given_an_id_and_deleted() -> None:
        del world.topics["t"]
        world.handlers.on_deleted("t", A)

    world.before_a_mark = given_an_id_and_deleted
    assert errors(world.delete("t")) == [NONE]


def test_topic_that_gets_its_id_while_it_is_marked_ends_with_that_alone() -> None:
    world = World({"t": ""})

    def given_an_id() -> None:
        world.topics["t"] = B

    world.before_a_mark = given_an_id
    slot = world.delete("t")
    world.handlers.on_deleted("t", A)  # of the topic before, told late
    assert not slot.done, "the t of now is still there"
    world.handlers.on_deleted("t", B)
    assert errors(slot) == [NONE]


def test_deletion_of_a_topic_made_anew_is_not_completed_by_the_one_before() -> None:
    world = World({"t": A, "u": B, "v": C})

    def errors_by_name(slot: FakeSlot) -> Sequence[tuple[str | None, int]]:
        return [(name, code) for name, _, code, _ in said(slot)]

    both = world.delete("t", "u")
    world.handlers.on_deleted("t", A)
    world.topics["t"] = anew = "E" * 21 + "A"
    again = world.delete("t")
    assert not again.done, "the t of now is still there"
    world.handlers.on_deleted("t", anew)
    assert errors_by_name(again) == [("t", 0)]
    assert not both.done
    unheard = world.delete("t", "v")
    world.handlers.on_deleted("u", B)
    assert errors_by_name(both) == [("t", 0), ("u", 0)]
    world.handlers.on_deleted("v", C)
    world.loop.advance(60_000)
    assert errors_by_name(unheard) == [("t", ErrorCode.REQUEST_TIMED_OUT), ("v", 0)]
