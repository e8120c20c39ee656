"""From a frame to the handler of its API, with the refusals that come before any handler.

Source: kafka.server.KafkaApis.handle, without its 4,000 lines: handlers register themselves in a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker.runtime.ports import ResponseSlot
from broker.runtime.requests.chain import Handler, RequestChain
from broker.runtime.requests.context import NO_CONNECTION, RequestContext
from broker.runtime.requests.request import NO_BODY, Request, refuse, respond
from broker.wire.advertised import api_versions_response, unsupported_version_body
from broker.wire.api import (
    ADVERTISED,
    SUPPORTED,
    ApiKey,
    is_supported,
    request_header_version,
    response_header_version,
)
from broker.wire.headers import decode_request_header, usual_request_header
from broker.wire.messages import api_versions


class _Route(NamedTuple):
    """Where requests of one API in one version go; flexible: their headers carry tags."""

    handler: Handler
    key: int
    version: int
    request_flexible: bool
    response_flexible: bool


class Dispatcher:
    """The table of handlers, by API key; and by key and version, for the usual request.

    A handler that waits keeps its request. The request's body is a view into all that was received with it, so the
    dispatcher takes the body back when the handler returns.
    """

    def __init__(self, handlers: Mapping[ApiKey, Handler], chain: RequestChain | None = None) -> None:
        """chain: what requests pass before the handlers; None for nothing. Steps that it lacks cost no request."""
        chain = chain or RequestChain()
        handlers = {key: chain.before(key, handler) for key, handler in handlers.items()}
        self._handlers = {int(key): handler for key, handler in handlers.items()}
        self._handle_api_versions = chain.before(ApiKey.API_VERSIONS, self._respond_api_versions)
        self._routes = {
            key << 16 | version: _Route(
                handlers[key],
                int(key),
                version,
                request_header_version(key, version) == 2,
                response_header_version(key, version) == 1,
            )
            for key, versions in SUPPORTED.items()
            if key in handlers
            for version in range(versions.first, versions.last + 1)
        }
        missing = set(ADVERTISED) - set(handlers) - {ApiKey.API_VERSIONS}
        assert not missing, f"advertised but not served: {sorted(missing)}"
        self._api_versions = api_versions_response(ADVERTISED)
        self._encoded_api_versions: dict[int, bytes] = {}

    def dispatch(self, frame: memoryview, slot: ResponseSlot, context: RequestContext = NO_CONNECTION) -> None:
        """Serve one request of the connection that context describes.

        Raises MalformedFrame for bytes that are no request: the connection closes.
        """
        header = usual_request_header(frame)
        if header is not None:
            api, correlation_id, client_id, start = header
            route = self._routes.get(api)
            if route is not None:
                handler, key, version, request_flexible, response_flexible = route
                if not request_flexible or frame[start] == 0:
                    body = frame[start + request_flexible :]
                    request = Request(key, version, correlation_id, client_id, body, slot, response_flexible, context)
                    handler(request)
                    request.body = NO_BODY
                    return
        self._dispatch_any(frame, slot, context)

    def _dispatch_any(self, frame: memoryview, slot: ResponseSlot, context: RequestContext) -> None:
        """A header with tags or without a client id, ApiVersions, and all that is refused."""
        key, version, correlation_id, client, body_start = decode_request_header(frame)
        request = Request(
            key,
            version,
            correlation_id,
            client or "",
            frame[body_start:],
            slot,
            response_header_version(key, version) == 1,
            context,
        )
        if key == ApiKey.API_VERSIONS:
            self._handle_api_versions(request)
            request.body = NO_BODY
            return
        handler = self._handlers.get(key)
        if handler is None or not is_supported(key, version):
            # Kafka closes the connection too: without the version's schema no error can be encoded.
            refuse(request, f"request with API key {key}, version {version} from {client!r} is not supported here")
            return
        handler(request)
        request.body = NO_BODY

    def _respond_api_versions(self, request: Request) -> None:
        version = request.api_version
        if not is_supported(ApiKey.API_VERSIONS, version):
            respond(request, unsupported_version_body(ADVERTISED))
            return
        body = self._encoded_api_versions.get(version)
        if body is None:
            api_versions.ApiVersionsRequest.decode(version, request.body)
            body = self._encoded_api_versions[version] = self._api_versions.encode(version)
        respond(request, body)
