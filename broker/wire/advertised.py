"""The response to ApiVersions: which APIs and versions are offered to clients (KIP-35, KIP-511)."""

from __future__ import annotations

from collections.abc import Mapping

from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.api_versions import ApiVersion, ApiVersionsResponse


def api_versions_response(advertised: Mapping[ApiKey, tuple[int, int]], error_code: int = 0) -> ApiVersionsResponse:
    """The response that advertises these (first, last) versions, in order of their API keys."""
    return ApiVersionsResponse(
        error_code=error_code,
        api_keys=[ApiVersion(api, first, last) for api, (first, last) in sorted(advertised.items())],
    )


def unsupported_version_body(advertised: Mapping[ApiKey, tuple[int, int]]) -> bytes:
    """The body for a request in a version newer than ours: error 35 in version 0, with what is offered (KIP-511)."""
    return api_versions_response(advertised, ErrorCode.UNSUPPORTED_VERSION).encode(0)
