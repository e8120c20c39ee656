"""From a frame to the handler of its API, with the refusals that come before any handler.

Source: kafka.server.KafkaApis.handle, without its 4,000 lines: handlers register themselves in a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from broker.runtime.ports import ResponseSlot
from broker.runtime.request import Request, refuse, respond
from broker.wire.api import ADVERTISED, ApiKey, is_supported, response_header_version
from broker.wire.headers import decode_request_header
from broker.wire.messages import api_versions

Handler = Callable[[Request], None]


class Dispatcher:
    """The table of handlers, by API key."""

    def __init__(self, handlers: Mapping[ApiKey, Handler]) -> None:
        self._handlers = {int(key): handler for key, handler in handlers.items()}
        missing = set(ADVERTISED) - set(handlers) - {ApiKey.API_VERSIONS}
        assert not missing, f"advertised but not served: {sorted(missing)}"
        self._api_versions = api_versions.answer(ADVERTISED)
        self._encoded_api_versions: dict[int, bytes] = {}

    def dispatch(self, frame: memoryview, slot: ResponseSlot) -> None:
        """Serve one request. Raises MalformedFrame for bytes that are no request: the connection closes."""
        key, version, correlation_id, client_id, body_start = decode_request_header(frame)
        request = Request(
            key,
            version,
            correlation_id,
            client_id or "",
            frame[body_start:],
            slot,
            response_header_version(key, version) == 1,
        )
        if key == ApiKey.API_VERSIONS:
            self._answer_api_versions(request)
            return
        handler = self._handlers.get(key)
        if handler is None or not is_supported(key, version):
            # Kafka closes the connection too: without the version's schema no error can be encoded.
            refuse(request, f"request with API key {key}, version {version} from {client_id!r} is not supported here")
            return
        handler(request)

    def _answer_api_versions(self, request: Request) -> None:
        version = request.api_version
        if not is_supported(ApiKey.API_VERSIONS, version):
            respond(request, api_versions.encode_unsupported(ADVERTISED))
            return
        body = self._encoded_api_versions.get(version)
        if body is None:
            api_versions.ApiVersionsRequest.decode(version, request.body)
            body = self._encoded_api_versions[version] = self._api_versions.encode(version)
        respond(request, body)
