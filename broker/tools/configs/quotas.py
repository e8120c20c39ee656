"""Quotas of users, client ids and addresses, and SCRAM credentials of users: described and altered (KIP-546, KIP-554).

A password is hashed here: brokers get salt, iterations and the salted password (RFC 5802).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from typing import Final

from broker.tools.client.cluster import Cluster
from broker.tools.client.errors import ToolError, check, exception_name
from broker.tools.client.numbers import finite_number
from broker.tools.configs.entities import CLIENTS, IPS, USERS, Entities
from broker.wire.errors import ErrorCode
from broker.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntity,
    OpData,
    QuotaAlteration,
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
    EntryData,
)
from broker.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

_EXACT: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2
_ENTITY: Final = {USERS: "user", CLIENTS: "client-id", IPS: "ip"}
_SHOWN: Final = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
_QUOTAS: Final = frozenset(
    {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}
)
_IP_QUOTAS: Final = frozenset({"connection_creation_rate"})
MECHANISMS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_HASHES: Final = {1: "sha256", 2: "sha512"}
_ITERATIONS: Final = 4096
_ITERATIONS_MAX: Final = 16384
_CREDENTIAL = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)", re.DOTALL)
_SALT_BYTES: Final = 20


def describe(cluster: Cluster, entities: Entities) -> list[str]:
    """A line for each entity that has quotas, and for each user that has credentials."""
    lines = [_quota_line(entry) for entry in _quotas(cluster, entities)]
    if IPS in entities.types or CLIENTS in entities.types or "" in entities.names:
        return lines
    names = [UserName(name) for name in entities.names]
    request = DescribeUserScramCredentialsRequest(names or None)
    response = cluster.controller(
        "describeUserScramCredentials",
        request,
        DescribeUserScramCredentialsResponse,
        lambda found: check(found.error_code, found.error_message),
    )
    for one in response.results:
        if one.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            continue
        if one.error_code:
            why = f"{exception_name(one.error_code)}: {one.error_message}"
            lines.append(f"Error retrieving SCRAM credential configs for user-principal '{one.user}': {why}")
            continue
        named = {number: name for name, number in MECHANISMS.items()}
        shown = ", ".join(
            f"{named.get(info.mechanism, 'UNKNOWN')}=iterations={info.iterations}" for info in one.credential_infos
        )
        lines.append(f"SCRAM credential configs for user-principal '{one.user}' are {shown}")
    return lines


def _quotas(cluster: Cluster, entities: Entities) -> list[EntryData]:
    components = []
    for index, kind in enumerate(entities.types):
        name = entities.names[index] if index < len(entities.names) else None
        match = _ANY if name is None else _EXACT if name else _DEFAULT
        components.append(ComponentData(_ENTITY[kind], match, name or None))
    request = DescribeClientQuotasRequest(components, strict=True)
    response = cluster.retry(
        "describeClientQuotas", lambda deadline: cluster.any(request, DescribeClientQuotasResponse, deadline)
    )
    check(response.error_code, response.error_message)
    return response.entries or []


def _quota_line(entry: EntryData) -> str:
    names = {one.entity_type: one.entity_name for one in entry.entity}
    parts = [
        f"{_SHOWN[kind]} '{names[kind]}'" if names[kind] is not None else f"the default {_SHOWN[kind]}"
        for kind in ("user", "client-id", "ip")
        if kind in names
    ]
    return f"Quota configs for {', '.join(parts)} are {', '.join(f'{one.key}={one.value}' for one in entry.values)}"


def alter(cluster: Cluster, entities: Entities, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    """Quotas, or credentials of one user. Raises ToolError, BrokerError."""
    names = [*added, *deleted]
    if IPS in entities.types:
        _refuse_others(names, _IP_QUOTAS, "Only connection quota configs can be added for 'ips'")
    elif CLIENTS in entities.types:
        _refuse_others(names, _QUOTAS, "Only quota configs can be added or deleted for 'clients'")
    else:
        what = "Only quota and SCRAM credential configs can be added or deleted for 'users'"
        _refuse_others(names, _QUOTAS | set(MECHANISMS), what)
        if any(name in MECHANISMS for name in names):
            _alter_credentials(cluster, entities, added, deleted)
            return
    _alter_quotas(cluster, entities, added, deleted)


def _refuse_others(names: Sequence[str], allowed: frozenset[str], what: str) -> None:
    if others := [name for name in names if name not in allowed]:
        raise ToolError(f"{what} using --bootstrap-server. Unexpected config names: {','.join(others)}")


def _alter_quotas(cluster: Cluster, entities: Entities, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    old = {one.key for entry in _quotas(cluster, entities)[:1] for one in entry.values}
    if invalid := [name for name in deleted if name not in old]:
        raise ToolError(f"Invalid config(s): {','.join(invalid)}")
    changes = []
    for name, value in added.items():
        rate = finite_number(value)
        if rate is None:
            raise ToolError(f"Cannot parse quota configuration value for {name}: {value}")
        changes.append(OpData(name, rate, False))
    changes += [OpData(name, 0.0, True) for name in deleted]
    entity = [
        AlteredEntity(_ENTITY[kind], name or None) for kind, name in zip(entities.types, entities.names, strict=True)
    ]
    request = AlterClientQuotasRequest([QuotaAlteration(entity, changes)])

    def verify(response: AlterClientQuotasResponse) -> None:
        for one in response.entries:
            check(one.error_code, one.error_message)

    cluster.controller("alterClientQuotas", request, AlterClientQuotasResponse, verify)


def _alter_credentials(cluster: Cluster, entities: Entities, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    if "" in entities.names:
        raise ToolError(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials "
            "using --bootstrap-server."
        )
    if any(name in _QUOTAS for name in [*added, *deleted]):
        raise ToolError(
            "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using --bootstrap-server."
        )
    user = entities.names[0]
    deletions = [ScramCredentialDeletion(user, MECHANISMS[name]) for name in deleted]
    upsertions = [credential(user, name, value) for name, value in added.items()]
    request = AlterUserScramCredentialsRequest(deletions, upsertions)

    def verify(response: AlterUserScramCredentialsResponse) -> None:
        for one in response.results:
            check(one.error_code, one.error_message)

    cluster.controller("alterUserScramCredentials", request, AlterUserScramCredentialsResponse, verify)


def credential(user: str, mechanism: str, text: str, salt: bytes | None = None) -> ScramCredentialUpsertion:
    """text: `iterations=8192,password=…`. salt: random where there is none. Raises ToolError."""
    match = _CREDENTIAL.fullmatch(text)
    if match is None:
        raise ToolError(f"Invalid credential property {mechanism}={text}")
    iterations = int(match[1]) if match[1] not in (None, "", "-1") else _ITERATIONS
    if not _ITERATIONS <= iterations <= _ITERATIONS_MAX:
        limit = f"less than the minimum {_ITERATIONS}" if iterations < _ITERATIONS else f"more than {_ITERATIONS_MAX}"
        raise ToolError(f"Iterations {iterations} is {limit} required for {mechanism}")
    number = MECHANISMS[mechanism]
    salt = salt or os.urandom(_SALT_BYTES)
    salted = hashlib.pbkdf2_hmac(_HASHES[number], match[2].encode(), salt, iterations)
    return ScramCredentialUpsertion(user, number, iterations, salt, salted)
