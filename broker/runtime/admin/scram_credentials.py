"""DescribeUserScramCredentials and AlterUserScramCredentials, of a broker that keeps no credentials.

Nobody is described, and a user who is asked for by name does not exist, as in Kafka without credentials. What would
have to be kept is refused: listeners here have no SASL.
Source: kafka.server.ZkAdminManager (describeUserScramCredentials, alterUserScramCredentials); KIP-554.
"""

from __future__ import annotations

from collections import Counter

from broker.runtime.requests.decoding import decode_or_refuse
from broker.runtime.requests.request import Request, respond
from broker.wire.errors import ErrorCode
from broker.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from broker.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

_NO_NAME = "Username must not be empty"
_MECHANISMS = {1: 4096, 2: 4096}
"""SCRAM-SHA-256 and -512, and how many iterations are the fewest."""
_ITERATIONS_MAX = 16384
_NOTHING_TO_DELETE = (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
_TWICE = (ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
_NOT_KEPT = (
    ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    "SCRAM credentials cannot be altered: this broker serves no SASL mechanism and keeps no credentials.",
)


def handle_describe_user_scram_credentials(request: Request) -> None:
    """Respond at once: nobody for all users, an error for each user that is named."""
    body = decode_or_refuse(request, DescribeUserScramCredentialsRequest)
    if body is None:
        return
    times = Counter(user.name for user in body.users or ())
    results = [DescribeUserScramCredentialsResult(user, *_not_described(user, count)) for user, count in times.items()]
    respond(request, DescribeUserScramCredentialsResponse(results=results).encode(request.api_version))


def _not_described(user: str, times: int) -> tuple[ErrorCode, str]:
    if not user:
        return ErrorCode.RESOURCE_NOT_FOUND, _NO_NAME
    if times > 1:
        text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        return ErrorCode.DUPLICATE_RESOURCE, text
    return ErrorCode.RESOURCE_NOT_FOUND, f"Attempt to describe a user credential that does not exist: {user}"


def handle_alter_user_scram_credentials(request: Request) -> None:
    """Respond at once, with an error for each user that is named."""
    body = decode_or_refuse(request, AlterUserScramCredentialsRequest)
    if body is None:
        return
    times = Counter((one.name, one.mechanism) for one in body.upsertions)
    times.update((one.name, one.mechanism) for one in body.deletions)
    refusals: dict[str, tuple[ErrorCode, str]] = {}
    for deletion in body.deletions:
        problem = _problem(deletion.name, deletion.mechanism)
        refusals.setdefault(deletion.name, problem or _NOTHING_TO_DELETE)
    for upsertion in body.upsertions:
        problem = _problem(upsertion.name, upsertion.mechanism, upsertion.iterations)
        if problem is not None or refusals.get(upsertion.name, _NOTHING_TO_DELETE) == _NOTHING_TO_DELETE:
            refusals[upsertion.name] = problem or _NOT_KEPT
    for (user, _), count in times.items():
        if count > 1 and refusals[user] in (_NOTHING_TO_DELETE, _NOT_KEPT):
            refusals[user] = _TWICE
    results = [AlterUserScramCredentialsResult(user, *refusal) for user, refusal in refusals.items()]
    respond(request, AlterUserScramCredentialsResponse(results=results).encode(request.api_version))


def _problem(user: str, mechanism: int, iterations: int | None = None) -> tuple[ErrorCode, str] | None:
    """What Kafka too would refuse. iterations: of a credential that is to be set."""
    if not user:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, _NO_NAME
    if mechanism not in _MECHANISMS:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    if iterations is not None and iterations > _ITERATIONS_MAX:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
    if iterations is not None and iterations < _MECHANISMS[mechanism]:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
    return None
