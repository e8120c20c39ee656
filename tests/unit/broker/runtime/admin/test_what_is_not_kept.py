"""Quotas of clients and SCRAM credentials, which this broker does not keep: nothing is described, nothing is set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.runtime.admin.client_quotas import handle_alter_client_quotas, handle_describe_client_quotas
from broker.runtime.admin.scram_credentials import (
    handle_alter_user_scram_credentials,
    handle_describe_user_scram_credentials,
)
from broker.runtime.requests.request import Request
from broker.wire.api import FLEXIBLE_FROM
from broker.wire.errors import ErrorCode
from broker.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntity,
    OpData,
    QuotaAlteration,
    ResultEntity,
)
from broker.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from broker.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from broker.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from broker.wire.schema import Message
from tests.support.memory_node import FakeSlot

SHA_256, SHA_512 = 1, 2


def ask(handle: Callable[[Request], None], message: Message, response: type[Message], version: int = 0) -> Any:
    slot, flexible = FakeSlot(), version >= FLEXIBLE_FROM[message.API]
    handle(Request(message.API, version, 1, "", memoryview(bytearray(message.encode(version))), slot, flexible))
    assert slot.response is not None
    return response.decode(version, slot.response[4 + flexible :], exact=True)


def described(*components: ComponentData, version: int = 1) -> DescribeClientQuotasResponse:
    request = DescribeClientQuotasRequest(list(components))
    found: DescribeClientQuotasResponse = ask(
        handle_describe_client_quotas, request, DescribeClientQuotasResponse, version
    )
    return found


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("kinds", [(), ("user",), ("user", "client-id"), ("ip",)])
def test_there_are_no_quotas(kinds: tuple[str, ...], version: int) -> None:
    found = described(*[ComponentData(kind, 2) for kind in kinds], version=version)
    assert (found.error_code, found.error_message, found.entries) == (0, None, [])


@pytest.mark.parametrize(
    ("components", "error", "text"),
    [
        (
            [ComponentData("client-id"), ComponentData("client-id", 1)],
            ErrorCode.INVALID_REQUEST,
            "Duplicate client filter component entity type",
        ),
        ([ComponentData("")], ErrorCode.INVALID_REQUEST, "Unexpected empty filter component entity type"),
        ([ComponentData("group")], ErrorCode.UNSUPPORTED_VERSION, "Custom entity type 'group' not supported"),
        ([ComponentData("user", 3)], ErrorCode.INVALID_REQUEST, "Unexpected match type: 3"),
        (
            [ComponentData("ip"), ComponentData("user")],
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination, IP filter component should not be used with user or "
            "clientId filter component.",
        ),
    ],
)
def test_filter_that_kafka_refuses_is_refused(components: list[ComponentData], error: ErrorCode, text: str) -> None:
    found = described(*components)
    assert (found.error_code, found.error_message, found.entries) == (error, text, None)


@pytest.mark.parametrize("validate_only", [False, True])
def test_quota_is_not_set_and_not_said_to_be(validate_only: bool) -> None:
    entities = [AlteredEntity("user", "u"), AlteredEntity("client-id", None)]
    request = AlterClientQuotasRequest(
        [QuotaAlteration(entities, [OpData("producer_byte_rate", 1000.0)])], validate_only
    )
    (result,) = ask(handle_alter_client_quotas, request, AlterClientQuotasResponse, 1).entries
    assert result.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert result.error_message == "Quotas of clients cannot be altered: this broker keeps none."
    assert result.entity == [ResultEntity("user", "u"), ResultEntity("client-id", None)]


def test_no_user_has_credentials() -> None:
    everybodys: tuple[list[UserName] | None, ...] = (None, [])
    for everybody in everybodys:
        request = DescribeUserScramCredentialsRequest(everybody)
        found = ask(handle_describe_user_scram_credentials, request, DescribeUserScramCredentialsResponse)
        assert (found.error_code, found.results) == (0, [])
    request = DescribeUserScramCredentialsRequest([UserName("u"), UserName(""), UserName("v"), UserName("v")])
    found = ask(handle_describe_user_scram_credentials, request, DescribeUserScramCredentialsResponse)
    assert [(one.user, one.error_code, one.error_message, one.credential_infos) for one in found.results] == [
        ("u", ErrorCode.RESOURCE_NOT_FOUND, "Attempt to describe a user credential that does not exist: u", []),
        ("", ErrorCode.RESOURCE_NOT_FOUND, "Username must not be empty", []),
        (
            "v",
            ErrorCode.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request: v",
            [],
        ),
    ]


def upsertion(user: str, mechanism: int = SHA_256, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(user, mechanism, iterations, b"salt", b"password")


def altered(
    upsertions: list[ScramCredentialUpsertion], deletions: list[ScramCredentialDeletion]
) -> dict[str, tuple[int, str]]:
    request = AlterUserScramCredentialsRequest(deletions, upsertions)
    found = ask(handle_alter_user_scram_credentials, request, AlterUserScramCredentialsResponse)
    assert len({one.user for one in found.results}) == len(found.results)
    return {one.user: (one.error_code, one.error_message) for one in found.results}


REFUSED = (
    ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    "SCRAM credentials cannot be altered: this broker serves no SASL mechanism and keeps no credentials.",
)
ABSENT = (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
TWICE = (ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")


def test_credential_is_not_set_and_not_said_to_be() -> None:
    assert altered([upsertion("u"), upsertion("u", SHA_512)], []) == {"u": REFUSED}
    assert altered([], [ScramCredentialDeletion("u", SHA_256)]) == {"u": ABSENT}
    assert altered([upsertion("u")], [ScramCredentialDeletion("u", SHA_512)]) == {"u": REFUSED}


def test_alterations_that_kafka_refuses_are_refused_in_its_words() -> None:
    found = altered(
        [
            upsertion(""),
            upsertion("mechanism", 9),
            upsertion("few", iterations=4095),
            upsertion("many", SHA_512, 16385),
            upsertion("twice"),
            upsertion("twice"),
        ],
        [ScramCredentialDeletion("unknown", 0), ScramCredentialDeletion("few", SHA_512)],
    )
    assert found == {
        "": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        "mechanism": (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        "few": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        "many": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        "twice": TWICE,
        "unknown": (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
    }
