"""DeleteTopics, by name or by id (KIP-516). Loop thread; ZooKeeper is read and written on the worker.

The request is the controller's: other brokers respond NOT_CONTROLLER, and clients send to the controller instead. A
deletion is a mark in `/admin/delete_topics/<name>`, which the controller's thread carries out; the response waits until
it has done so, or the time is over.

By id: the controller says which name the id has; the topic's znode says whether that is so still; the mark carries the
id, so that the controller takes no later topic of the name, however late the mark comes. The response waits for the end
of the topic of that id. By name it waits for the end of the topic that had the name when the mark was made.

As in Kafka: the id in a response is the one of the request, so a topic that was asked for by name has none there; a
name and an id together refuse the whole request. Otherwise than in Kafka 3.9 with ZooKeeper, which then says
TOPIC_AUTHORIZATION_FAILED: neither of both is INVALID_REQUEST, as with KRaft. And a topic that is asked for twice in
the same way has one result. Where the controller knows an id and the topic is gone since, Kafka says
UNKNOWN_TOPIC_OR_PARTITION with the name (its metadata cache has it no more); here it is UNKNOWN_TOPIC_ID without one,
as of an id that nobody has. Source: KafkaApis.handleDeleteTopicsRequest, DeleteTopicsRequest.getErrorResponse.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, Protocol

from broker.core.admin import topic_names
from broker.core.controller.cluster_state import StoreUnavailable
from broker.runtime.ports import Loop
from broker.runtime.requests.condition_waits import Waits
from broker.runtime.requests.decoding import decode_or_refuse
from broker.runtime.requests.request import Request, respond
from broker.runtime.worker import Worker
from broker.wire.errors import ErrorCode
from broker.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

_log = logging.getLogger("broker.admin")

_DELETION_DISABLED_FROM = 3
_TOPICS_FROM = 6
_NO_ID = ""
"""As the wire codecs say the zero id."""
_REQUEST_TOPICS_MAX = 10_000
"""Each of them costs a read of ZooKeeper, on the thread that also registers this broker."""
_NEITHER = "Neither topic name nor id were specified."


class DeletionStore(Protocol):
    """Blocking; raises StoreUnavailable."""

    def topic_id(self, name: str) -> str | None:
        """The id in `/brokers/topics/<name>`, "" where it has none; None where there is no such topic."""
        ...

    def request_deletion(self, name: str, topic_id: str, *, by_id: bool) -> bool:
        """Mark the topic in `/admin/delete_topics`, for the controller to delete it: the one of this id alone (by_id),
        or whichever has the name then. topic_id: of the topic that was found, "" where it has none. False where a mark
        that stays says so already, or that topic is gone.
        """
        ...


NamesOf = Callable[[Collection[str], Callable[[Mapping[str, str] | None], None], Callable[[], bool]], None]
"""(ids, then, wanted): then(the names of those that the controller knows, or None where this broker is no controller)
on the loop; not at all where wanted() is false by then."""


class _Asked(NamedTuple):
    """One topic of a request, as the request names it."""

    name: str | None
    topic_id: str

    @property
    def by_id(self) -> bool:
        return self.topic_id != _NO_ID


class _Result(NamedTuple):
    error: ErrorCode
    name: str | None
    text: str | None = None


class _Wait:
    """What one request waits for: topics by (name, id), with what of the request means them."""

    def __init__(self) -> None:
        self._ended: set[tuple[str, str]] = set()
        """All since before the first mark was made."""
        self._missing: dict[tuple[str, str], list[_Asked]] = {}

    def begin(self, marked: Mapping[_Asked, tuple[str, str]]) -> None:
        """These have marks. A topic without an id ends with the next one of its name."""
        for one, topic in marked.items():
            if topic not in self._ended:
                self._missing.setdefault(topic, []).append(one)

    def end(self, name: str, topic_id: str) -> None:
        self._ended.add((name, topic_id))
        self._missing.pop((name, topic_id), None)
        self._missing.pop((name, _NO_ID), None)

    @property
    def done(self) -> bool:
        return not self._missing

    def missing(self) -> list[_Asked]:
        return [one for asked in self._missing.values() for one in asked]


class DeleteTopicsHandlers:
    """See the module. Listens to `on_deleted` for finished deletions."""

    def __init__(
        self,
        enabled: bool,
        store: DeletionStore,
        worker: Worker,
        loop: Loop,
        is_controller: Callable[[], bool],
        names_of: NamesOf,
    ) -> None:
        """enabled: `delete.topic.enable`."""
        self._enabled = enabled
        self._store = store
        self._worker = worker
        self._loop = loop
        self._is_controller = is_controller
        self._names_of = names_of
        self._open: list[_Wait] = []
        self._waits = Waits(loop)

    def handle_delete_topics(self, request: Request) -> None:
        """Delete topics; responds once the controller has deleted them, or at the time-out."""
        body = decode_or_refuse(request, DeleteTopicsRequest)
        if body is None:
            return
        if request.api_version < _TOPICS_FROM:
            asked = [_Asked(name, _NO_ID) for name in dict.fromkeys(body.topic_names)]
        else:
            asked = list(dict.fromkeys(_Asked(topic.name, topic.topic_id) for topic in body.topics))
        refusal = self._refusal(request.api_version, asked)
        if refusal is not ErrorCode.NONE:
            _refuse(request, asked, refusal)
            return
        ids = [one.topic_id for one in asked if one.by_id]
        if not ids:
            self._delete(request, body.timeout_ms, asked, {})
            return

        def named(names: Mapping[str, str] | None) -> None:
            if names is None:
                _refuse(request, asked, ErrorCode.NOT_CONTROLLER)
            else:
                self._delete(request, body.timeout_ms, asked, names)

        self._names_of(ids, named, lambda: request.open)

    def _refusal(self, version: int, asked: Collection[_Asked]) -> ErrorCode:
        """For the whole request."""
        if not self._is_controller():
            return ErrorCode.NOT_CONTROLLER
        if not self._enabled:
            disabled = version >= _DELETION_DISABLED_FROM
            return ErrorCode.TOPIC_DELETION_DISABLED if disabled else ErrorCode.INVALID_REQUEST
        if any(one.by_id and one.name is not None for one in asked):
            return ErrorCode.INVALID_REQUEST
        return ErrorCode.NONE if len(asked) <= _REQUEST_TOPICS_MAX else ErrorCode.POLICY_VIOLATION

    def _delete(self, request: Request, timeout_ms: int, asked: list[_Asked], names: Mapping[str, str]) -> None:
        """names: those of the ids that the controller knows."""
        results: dict[_Asked, _Result] = {}
        wanted: dict[_Asked, str] = {}
        for one in asked:
            name = names.get(one.topic_id) if one.by_id else one.name
            if name is not None:
                wanted[one] = name
            elif one.by_id:
                results[one] = _Result(ErrorCode.UNKNOWN_TOPIC_ID, None)
            else:
                results[one] = _Result(ErrorCode.INVALID_REQUEST, None, _NEITHER)
        wait = _Wait()
        self._open.append(wait)

        def reply() -> None:
            self._open = [other for other in self._open if other is not wait]
            done = {one: _Result(ErrorCode.NONE, name) for one, name in wanted.items()}
            _respond(request, {one: results.get(one) or done[one] for one in asked})

        def timed_out() -> None:
            results.update({one: _Result(ErrorCode.REQUEST_TIMED_OUT, wanted[one]) for one in wait.missing()})
            reply()

        def requested(settled: Mapping[_Asked, _Result], marked: Mapping[_Asked, tuple[str, str]]) -> None:
            results.update(settled)
            wait.begin(marked)
            self._waits.until(lambda: wait.done, timeout_ms, reply, timed_out)

        if wanted:
            self._request_deletions(wanted, requested)
        else:
            reply()

    def _request_deletions(
        self,
        wanted: Mapping[_Asked, str],
        then: Callable[[Mapping[_Asked, _Result], Mapping[_Asked, tuple[str, str]]], None],
    ) -> None:
        """Mark these on the worker; then(results of what is not waited for, (name, id) of what was marked) on the loop.

        A topic without an id is looked at once more after its mark is made. The controller may have given it one
        meanwhile, and its end is told with that; or it is gone already.
        """

        def task() -> None:
            settled: dict[_Asked, _Result] = {}
            marked: dict[_Asked, tuple[str, str]] = {}
            for one, name in wanted.items():
                try:
                    found = None if topic_names.refusal(name) is not None else self._store.topic_id(name)
                    if one.by_id and found != one.topic_id:
                        settled[one] = _Result(ErrorCode.UNKNOWN_TOPIC_ID, None)
                    elif found is None:
                        settled[one] = _Result(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
                    else:
                        self._store.request_deletion(name, found, by_id=one.by_id)
                        after = found or self._store.topic_id(name)
                        if after is None:
                            settled[one] = _Result(ErrorCode.NONE, name)
                        else:
                            marked[one] = (name, after)
                except StoreUnavailable as unavailable:
                    _log.warning("topic %s: %s", name, unavailable)
                    settled[one] = _Result(ErrorCode.REQUEST_TIMED_OUT, name)
                except Exception:
                    _log.exception("topic %s cannot be deleted", name)
                    settled[one] = _Result(ErrorCode.UNKNOWN_SERVER_ERROR, name)
            self._loop.call_soon_threadsafe(lambda: then(settled, marked))

        self._worker.submit("deleting topics", task)

    def on_deleted(self, name: str, topic_id: str) -> None:
        """The controller on this broker has finished the deletion of the topic of this name and id."""
        for wait in self._open:
            wait.end(name, topic_id)
        self._waits.check()


def _refuse(request: Request, asked: Collection[_Asked], error: ErrorCode) -> None:
    """All of the request, with names and ids as it has them."""
    _respond(request, {one: _Result(error, one.name) for one in asked})


def _respond(request: Request, results: Mapping[_Asked, _Result]) -> None:
    responses = [
        DeletableTopicResult(result.name, one.topic_id, result.error, result.text) for one, result in results.items()
    ]
    respond(request, DeleteTopicsResponse(responses=responses).encode(request.api_version))
