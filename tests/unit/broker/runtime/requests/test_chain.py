"""What a request passes before its handler: each step plugged in, and none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.runtime.requests.chain import RequestChain
from broker.runtime.requests.context import ANONYMOUS, Principal, RequestContext
from broker.runtime.requests.dispatch import Dispatcher
from broker.runtime.requests.request import Request, refuse, respond, respond_nothing
from broker.wire.api import SUPPORTED, ApiKey
from broker.wire.headers import encode_request_header
from broker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker.wire.messages.metadata import MetadataRequest
from broker.wire.primitives import MalformedFrame
from tests.support.fake_loop import FakeLoop
from tests.support.memory_node import FakeSlot

CONTEXT = RequestContext("PLAINTEXT", "10.0.0.1:4711")
OTHER = RequestContext("PLAINTEXT", "10.0.0.2:4711")


class Allowing:
    """Allows what it is told to, and keeps what it was asked."""

    def __init__(self, allowed: Callable[[Request], bool]) -> None:
        self.allowed = allowed
        self.asked: list[tuple[int, str, str]] = []

    def authorize(self, request: Request) -> bool:
        self.asked.append((request.api_key, request.listener, str(request.principal)))
        return self.allowed(request)


class Quotas:
    """Client ids in debt until a time."""

    def __init__(self, loop: FakeLoop) -> None:
        self.loop = loop
        self.until_ms: dict[str, float] = {}

    def throttle_time_ms(self, request: Request) -> float:
        return max(0.0, self.until_ms.get(request.client_id, 0.0) - self.loop.now)


class Metrics:
    def __init__(self) -> None:
        self.seen: list[tuple[int, int, float]] = []
        self.bytes: list[tuple[int, int]] = []

    def completed(self, request: Request, request_bytes: int, response_bytes: int, total_time_ms: float) -> None:
        self.seen.append((request.api_key, request.correlation_id, total_time_ms))
        self.bytes.append((request_bytes, response_bytes))


class Handlers:
    """One handler for every API; answers at once unless told to keep requests."""

    def __init__(self) -> None:
        self.handled: list[Request] = []
        self.bodies: list[bytes] = []
        self.answer: Callable[[Request], None] = lambda request: respond(request, b"done")

    def __call__(self, request: Request) -> None:
        self.handled.append(request)
        self.bodies.append(bytes(request.body))
        self.answer(request)

    @property
    def order(self) -> list[int]:
        return [request.correlation_id for request in self.handled]


def dispatch(
    dispatcher: Dispatcher,
    number: int,
    api: ApiKey = ApiKey.INIT_PRODUCER_ID,
    *,
    client: str = "client",
    context: RequestContext = CONTEXT,
    body: bytes | None = None,
    version: int | None = None,
) -> FakeSlot:
    slot = FakeSlot()
    if body is None:
        body = InitProducerIdRequest(None, 1000).encode(4)
    if version is None:
        version = SUPPORTED[api].last
    frame = bytearray(encode_request_header(api, version, number, client) + body)
    dispatcher.dispatch(memoryview(frame), slot, context)
    frame.clear()  # raises BufferError where a request that waits keeps what was received
    return slot


def make(handlers: Handlers, chain: RequestChain | None = None) -> Dispatcher:
    return Dispatcher(dict.fromkeys(SUPPORTED, handlers), chain)


@pytest.fixture
def handlers() -> Handlers:
    return Handlers()


@pytest.fixture
def loop() -> FakeLoop:
    return FakeLoop()


def test_request_carries_listener_and_principal_of_its_connection(handlers: Handlers) -> None:
    dispatch(make(handlers), 1)
    (request,) = handlers.handled
    assert request.context is CONTEXT, "made once per connection, not once per request"
    assert (request.listener, request.principal, str(request.principal)) == ("PLAINTEXT", ANONYMOUS, "User:ANONYMOUS")
    assert request.with_own_body().context is CONTEXT


def test_request_with_an_unusual_header_carries_them_too(handlers: Handlers) -> None:
    frame = memoryview(bytearray(encode_request_header(ApiKey.METADATA, 9, 1, None)))
    make(handlers).dispatch(frame, FakeSlot(), CONTEXT)
    assert handlers.handled[0].context is CONTEXT


@pytest.mark.parametrize("api", sorted(SUPPORTED))
def test_chain_without_steps_leaves_the_handler_itself_in_the_route(api: ApiKey, handlers: Handlers) -> None:
    assert RequestChain().before(api, handlers) is handlers
    assert RequestChain(FakeLoop()).before(api, handlers) is handlers
    routes = make(handlers)._routes
    assert all(route.handler is handlers for route in routes.values())


@pytest.mark.parametrize("step", ["quotas", "metrics"])
def test_step_that_measures_time_needs_a_loop(step: str, loop: FakeLoop) -> None:
    with pytest.raises(ValueError, match="need a loop"):
        RequestChain(**{step: Quotas(loop) if step == "quotas" else Metrics()})  # type: ignore[arg-type]


# -- authorise ---------------------------------------------------------------------------------------------------------


def test_refused_request_reaches_no_handler_and_gets_the_apis_error(handlers: Handlers) -> None:
    authorizer = Allowing(lambda request: False)
    slot = dispatch(make(handlers, RequestChain(authorizer=authorizer)), 1)
    assert handlers.handled == []
    assert slot.response is not None
    response = InitProducerIdResponse.decode(4, slot.response[5:], exact=True)
    assert (response.error_code, response.producer_id) == (31, -1), "CLUSTER_AUTHORIZATION_FAILED"
    assert authorizer.asked == [(ApiKey.INIT_PRODUCER_ID, "PLAINTEXT", "User:ANONYMOUS")]


def test_authoriser_decides_by_principal(handlers: Handlers) -> None:
    alice = RequestContext("SASL", "10.0.0.3:1", Principal("User", "alice"))
    dispatcher = make(handlers, RequestChain(authorizer=Allowing(lambda request: request.principal.name == "alice")))
    dispatch(dispatcher, 1)
    assert dispatch(dispatcher, 2, context=alice).response is not None
    assert handlers.order == [2]


def test_malformed_request_that_is_refused_closes_its_connection(handlers: Handlers) -> None:
    slot = dispatch(make(handlers, RequestChain(authorizer=Allowing(lambda request: False))), 1, body=b"\x01")
    assert slot.closed
    assert slot.response is None


def test_everybody_may_request_api_versions(handlers: Handlers, loop: FakeLoop) -> None:
    authorizer, metrics = Allowing(lambda request: False), Metrics()
    dispatcher = make(handlers, RequestChain(loop, authorizer, metrics=metrics))
    slot = dispatch(dispatcher, 1, ApiKey.API_VERSIONS, version=0, body=b"")
    assert slot.response is not None
    assert authorizer.asked == []
    assert metrics.seen == [(ApiKey.API_VERSIONS, 1, 0.0)]


# -- throttle ----------------------------------------------------------------------------------------------------------


def test_throttled_request_is_handled_when_its_time_is_over(handlers: Handlers, loop: FakeLoop) -> None:
    quotas = Quotas(loop)
    dispatcher = make(handlers, RequestChain(loop, quotas=quotas))
    quotas.until_ms["client"] = loop.now + 250
    body = InitProducerIdRequest(None, 777).encode(4)
    slot = dispatch(dispatcher, 1, body=body)
    loop.advance(249)
    assert not slot.done
    loop.advance(1)
    assert slot.response is not None
    assert handlers.bodies == [body]
    assert bytes(handlers.handled[0].body) == b"", "a handler that keeps the request keeps no copy of the body"
    assert dispatch(dispatcher, 2).response is not None, "nothing is held any more"


def test_nothing_of_the_connection_overtakes_a_throttled_request(handlers: Handlers, loop: FakeLoop) -> None:
    quotas = Quotas(loop)
    dispatcher = make(handlers, RequestChain(loop, quotas=quotas))
    quotas.until_ms["slow"] = loop.now + 100
    dispatch(dispatcher, 1, client="slow")
    dispatch(dispatcher, 2, ApiKey.METADATA, client="quick", body=MetadataRequest([]).encode(12))
    dispatch(dispatcher, 3, client="other", context=OTHER)
    assert handlers.order == [3], "another connection waits for nobody"
    loop.advance(100)
    assert handlers.order == [3, 1, 2]


def test_quota_exceeded_again_holds_what_is_left(handlers: Handlers, loop: FakeLoop) -> None:
    quotas = Quotas(loop)
    dispatcher = make(handlers, RequestChain(loop, quotas=quotas))
    quotas.until_ms["client"] = loop.now + 100
    for number in (1, 2, 3):
        dispatch(dispatcher, number)

    def exceed_again(request: Request) -> None:
        if request.correlation_id == 2:
            quotas.until_ms["client"] = loop.now + 50
        respond(request, b"")

    handlers.answer = exceed_again
    loop.advance(100)
    assert handlers.order == [1, 2]
    loop.advance(50)
    assert handlers.order == [1, 2, 3]


def test_held_request_of_a_connection_that_is_gone_is_not_handled(handlers: Handlers, loop: FakeLoop) -> None:
    quotas = Quotas(loop)
    dispatcher = make(handlers, RequestChain(loop, quotas=quotas))
    quotas.until_ms["client"] = loop.now + 100
    dispatch(dispatcher, 1).open = False
    loop.advance(100)
    assert handlers.handled == []


@pytest.mark.parametrize("error", [MalformedFrame("name", 3, b"", "cut off"), RuntimeError("a bug")])
def test_held_request_that_its_handler_cannot_read_closes_its_connection(
    error: Exception, handlers: Handlers, loop: FakeLoop
) -> None:
    quotas = Quotas(loop)
    dispatcher = make(handlers, RequestChain(loop, quotas=quotas))
    quotas.until_ms["client"] = loop.now + 100
    first = dispatch(dispatcher, 1)
    second = dispatch(dispatcher, 2)

    def fail_on_first(request: Request) -> None:
        if request.correlation_id == 1:
            raise error
        respond(request, b"")

    handlers.answer = fail_on_first
    loop.advance(100)
    assert first.closed
    assert second.response is not None, "the fake slot's connection is still there; what is held goes on"


# -- measure -----------------------------------------------------------------------------------------------------------


def test_each_request_is_measured_once_with_its_time(handlers: Handlers, loop: FakeLoop) -> None:
    metrics = Metrics()
    dispatcher = make(handlers, RequestChain(loop, metrics=metrics))
    handlers.answer = lambda request: None
    for number in range(4):
        dispatch(dispatcher, number)
        loop.advance(10)
    assert metrics.seen == [], "none is answered yet"
    respond(handlers.handled[2], b"")
    respond_nothing(handlers.handled[0])
    refuse(handlers.handled[1], "a reason")
    loop.advance(5)
    respond(handlers.handled[3], b"")
    key = ApiKey.INIT_PRODUCER_ID
    assert metrics.seen == [(key, 2, 20.0), (key, 0, 40.0), (key, 1, 30.0), (key, 3, 15.0)]


def test_refused_and_throttled_requests_are_measured_with_their_wait(handlers: Handlers, loop: FakeLoop) -> None:
    metrics, quotas = Metrics(), Quotas(loop)
    authorizer = Allowing(lambda request: request.client_id != "mallory")
    dispatcher = make(handlers, RequestChain(loop, authorizer, quotas, metrics))
    quotas.until_ms = {"client": loop.now + 100, "mallory": loop.now + 100}
    dispatch(dispatcher, 1, client="mallory")
    assert metrics.seen == [(ApiKey.INIT_PRODUCER_ID, 1, 0.0)], "refused at once: it waits for no quota"
    dispatch(dispatcher, 2)
    loop.advance(200)
    assert metrics.seen[1:] == [(ApiKey.INIT_PRODUCER_ID, 2, 100.0)]


def test_measure_has_the_bytes_of_request_and_response(handlers: Handlers, loop: FakeLoop) -> None:
    """Also of a request that was held, or whose response comes in a later turn, when its body is long gone."""
    metrics, quotas = Metrics(), Quotas(loop)
    dispatcher = make(handlers, RequestChain(loop, quotas=quotas, metrics=metrics))
    handlers.answer = lambda request: None
    quotas.until_ms["client"] = loop.now + 100
    dispatch(dispatcher, 1, ApiKey.METADATA, version=1, body=bytes(70))
    dispatch(dispatcher, 2, ApiKey.METADATA, version=1, body=bytes(80))
    loop.advance(100)
    respond(handlers.handled[0], [b"abc", memoryview(bytes(1000))])
    respond_nothing(handlers.handled[1])
    assert metrics.bytes == [(70, 4 + 3 + 1000), (80, 0)]


@pytest.mark.parametrize("answered", [False, True])
def test_request_whose_handler_fails_is_measured_once(answered: bool, handlers: Handlers, loop: FakeLoop) -> None:
    metrics = Metrics()

    def fail(request: Request) -> None:
        if answered:
            respond(request, b"")
        raise MalformedFrame("name", 3, b"", "cut off")

    handlers.answer = fail
    with pytest.raises(MalformedFrame):
        dispatch(make(handlers, RequestChain(loop, metrics=metrics)), 1)
    assert metrics.seen == [(ApiKey.INIT_PRODUCER_ID, 1, 0.0)]


def test_measured_request_knows_whether_its_connection_is_open(handlers: Handlers, loop: FakeLoop) -> None:
    handlers.answer = lambda request: None
    slot = dispatch(make(handlers, RequestChain(loop, metrics=Metrics())), 1)
    assert handlers.handled[0].open
    slot.open = False
    assert not handlers.handled[0].open
