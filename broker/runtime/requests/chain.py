"""What every request passes before its handler: measure, authorise, throttle.

A chain is put before each handler once, when the dispatcher's routes are made. A step that nobody plugged in is left
out of the route, so a broker without ACLs, quotas and metrics calls its handlers directly. Order: the measure begins
first, so that what was refused or held is counted with its whole time; a request is authorised before it is throttled,
so that one that is refused waits for nothing. `broker.server.data_plane`, which makes the dispatcher, is where they
will be plugged in: ACLs as `Authorizer`, client quotas as `ClientQuotaManager`, request metrics as `RequestMetrics`.
Source: kafka.server.KafkaApis.handle, RequestHandlerHelper; KIP-219 for the order among throttled requests.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from broker.runtime.ports import Loop, ResponseSlot
from broker.runtime.requests.context import RequestContext
from broker.runtime.requests.denial import deny
from broker.runtime.requests.request import NO_BODY, Request, refuse
from broker.wire.api import ApiKey
from broker.wire.chunks import Chunk, chunks_length
from broker.wire.primitives import MalformedFrame

_log = logging.getLogger(__name__)

Handler = Callable[[Request], None]


class Authorizer(Protocol):
    """Who may send which request; ACLs will stand behind it. Source: org.apache.kafka.server.authorizer.Authorizer."""

    def authorize(self, request: Request) -> bool:
        """Whether request.principal may send this request at all, by its API and listener.

        Rights on single topics and groups are the business of the request's handler, which knows which ones it names.
        """
        ...


class ClientQuotaManager(Protocol):
    """Quotas by principal and client id. Source: kafka.server.ClientQuotaManager, ClientRequestQuotaManager."""

    def throttle_time_ms(self, request: Request) -> float:
        """How long this request and all later ones of its connection wait before it is handled; 0 for not at all.

        Called again when the wait is over: what it returns then counts. Responses do not carry the time yet:
        their throttle_time_ms is 0.
        """
        ...


class RequestMetrics(Protocol):
    """Counts, sizes and times by API, listener and principal. Source: kafka.network.RequestMetrics.

    Quotas of bytes are charged here too: what a Fetch costs is known once its response is there.
    """

    def completed(self, request: Request, request_bytes: int, response_bytes: int, total_time_ms: float) -> None:
        """Called once for a request that got a response, was refused, or ended without a response.

        request_bytes: of its body. response_bytes: header and body, 0 for no response. total_time_ms: from its arrival
        until its response was handed to the connection, waits for replicas and throttling included. Not called for a
        request that was given up because its connection was gone.
        """
        ...


class RequestChain:
    """The steps that are plugged in; None for one that is not."""

    def __init__(
        self,
        loop: Loop | None = None,
        authorizer: Authorizer | None = None,
        quotas: ClientQuotaManager | None = None,
        metrics: RequestMetrics | None = None,
    ) -> None:
        """loop: quotas and metrics need it for their times. Raises ValueError where they have none."""
        if loop is None and (quotas is not None or metrics is not None):
            raise ValueError("quotas and metrics need a loop")
        self._loop = loop
        self._authorizer = authorizer
        self._throttle = None if loop is None or quotas is None else _Throttle(loop, quotas)
        self._metrics = metrics

    def before(self, api: ApiKey, handler: Handler) -> Handler:
        """What the route to this handler calls: the handler itself where no step is plugged in.

        ApiVersions is open to everybody: a client has to learn how it can authenticate.
        """
        loop = self._loop
        if self._throttle is not None:
            handler = self._throttle.before(handler)
        if self._authorizer is not None and api is not ApiKey.API_VERSIONS:
            handler = _authorized(self._authorizer, handler)
        if loop is not None and self._metrics is not None:
            handler = _measured(loop, self._metrics, handler)
        return handler


def _authorized(authorizer: Authorizer, handler: Handler) -> Handler:
    def handle(request: Request) -> None:
        if authorizer.authorize(request):
            handler(request)
        else:
            deny(request)

    return handle


def _measured(loop: Loop, metrics: RequestMetrics, handler: Handler) -> Handler:
    def handle(request: Request) -> None:
        slot = _MeasuredSlot(loop, metrics, request)
        request.slot = slot
        try:
            handler(request)
        except Exception:
            slot.failed()
            raise

    return handle


class _MeasuredSlot:
    """A ResponseSlot that reports to the metrics when it is fulfilled."""

    __slots__ = ("_arrived_ms", "_completed", "_loop", "_metrics", "_request", "_request_bytes", "_slot")

    def __init__(self, loop: Loop, metrics: RequestMetrics, request: Request) -> None:
        self._loop = loop
        self._metrics = metrics
        self._request = request
        self._slot: ResponseSlot = request.slot
        self._request_bytes = len(request.body)
        self._arrived_ms = loop.now_ms()
        self._completed = False

    def fulfil(self, chunks: Sequence[Chunk]) -> None:
        self._slot.fulfil(chunks)
        self._complete(chunks)

    def fulfil_nothing(self) -> None:
        self._slot.fulfil_nothing()
        self._complete(())

    def close_connection(self, reason: str, response: Sequence[Chunk] = ()) -> None:
        self._slot.close_connection(reason, response)
        self._complete(response)

    def when_overtaken(self, call: Callable[[], None] | None) -> None:
        self._slot.when_overtaken(call)

    def failed(self) -> None:
        """The handler raised: the connection closes, and with it goes this slot."""
        if not self._completed:
            self._complete(())

    @property
    def open(self) -> bool:
        return self._slot.open

    @property
    def done(self) -> bool:
        return self._slot.done

    def _complete(self, response: Sequence[Chunk]) -> None:
        self._completed = True
        request = self._request
        request.slot = self._slot  # no cycle is left for the garbage collector
        response_bytes = chunks_length(response)
        self._metrics.completed(request, self._request_bytes, response_bytes, self._loop.now_ms() - self._arrived_ms)


class _Throttle:
    """Holds requests of a connection that exceeds its quota, in the order in which they came.

    No later request of the connection overtakes one that is held, whatever its API: an idempotent producer's batches
    must be appended in the order in which they were sent. How many are held is bounded by the connection, which is
    not read while it has too many requests in flight.
    """

    def __init__(self, loop: Loop, quotas: ClientQuotaManager) -> None:
        self._loop = loop
        self._quotas = quotas
        self._held: dict[RequestContext, deque[tuple[Handler, Request]]] = {}

    def before(self, handler: Handler) -> Handler:
        def handle(request: Request) -> None:
            context = request.context
            held = self._held.get(context)
            if held is None:
                wait_ms = self._quotas.throttle_time_ms(request)
                if wait_ms <= 0:
                    handler(request)
                    return
                held = self._held[context] = deque()
                self._loop.call_later(wait_ms, partial(self._release, context))
            held.append((handler, request.with_own_body()))

        return handle

    def _release(self, context: RequestContext) -> None:
        """Handle what is held, up to a request that has to wait on."""
        held = self._held[context]
        while held:
            handler, request = held[0]
            if request.open:
                wait_ms = self._quotas.throttle_time_ms(request)
                if wait_ms > 0:
                    self._loop.call_later(wait_ms, partial(self._release, context))
                    return
            held.popleft()
            if request.open:
                handle_late(handler, request)
        del self._held[context]


def handle_late(handler: Handler, request: Request) -> None:
    """What a connection does around a handler, for one that is called by a timer."""
    try:
        handler(request)
    except MalformedFrame as error:
        refuse(request, str(error))
    except Exception:
        _log.exception("request from %s failed", request.context.client_address)
        refuse(request, "its request could not be handled")
    request.body = NO_BODY
