"""DescribeClientQuotas and AlterClientQuotas, of a broker that keeps no quotas of clients.

A description is checked as Kafka checks it, and empty; what would have to be kept is refused.
Source: kafka.server.ZkAdminManager (describeClientQuotas, alterClientQuotas); KIP-546.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.runtime.requests.decoding import decode_or_refuse
from broker.runtime.requests.request import Request, respond
from broker.wire.errors import ErrorCode
from broker.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    QuotaAlterationResult,
    ResultEntity,
)
from broker.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

_TYPES = {"user": "user", "client-id": "client", "ip": "ip"}
"""Types of entities, and what Kafka's texts call their filters."""
_MATCH_TYPES = range(3)
_NOT_KEPT = "Quotas of clients cannot be altered: this broker keeps none."


def handle_describe_client_quotas(request: Request) -> None:
    """Respond at once: no entries, or what is wrong with the filter."""
    body = decode_or_refuse(request, DescribeClientQuotasRequest)
    if body is None:
        return
    problem = _problem(body.components)
    response = DescribeClientQuotasResponse()
    if problem is not None:
        code, text = problem
        response = DescribeClientQuotasResponse(error_code=code, error_message=text, entries=None)
    respond(request, response.encode(request.api_version))


def _problem(components: Sequence[ComponentData]) -> tuple[ErrorCode, str] | None:
    seen: set[str] = set()
    for component in components:
        kind = component.entity_type
        if component.match_type not in _MATCH_TYPES:
            return ErrorCode.INVALID_REQUEST, f"Unexpected match type: {component.match_type}"
        if kind in seen:
            return ErrorCode.INVALID_REQUEST, f"Duplicate {_TYPES[kind]} filter component entity type"
        if not kind:
            return ErrorCode.INVALID_REQUEST, "Unexpected empty filter component entity type"
        if kind not in _TYPES:
            return ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{kind}' not supported"
        seen.add(kind)
    if "ip" in seen and len(seen) > 1:
        text = "IP filter component should not be used with user or clientId filter component."
        return ErrorCode.INVALID_REQUEST, f"Invalid entity filter component combination, {text}"
    return None


def handle_alter_client_quotas(request: Request) -> None:
    """Respond at once: every entry is refused, one that is only to be validated too."""
    body = decode_or_refuse(request, AlterClientQuotasRequest)
    if body is None:
        return
    results = [
        QuotaAlterationResult(
            ErrorCode.UNSUPPORTED_VERSION,
            _NOT_KEPT,
            [ResultEntity(entity.entity_type, entity.entity_name) for entity in entry.entity],
        )
        for entry in body.entries
    ]
    respond(request, AlterClientQuotasResponse(entries=results).encode(request.api_version))
