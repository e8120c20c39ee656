"""Settings of a client and of bootstrap lists, and names of errors."""

from __future__ import annotations

import pytest

from broker.tools.client.connection import Address
from broker.tools.client.errors import BrokerError, TimedOut, ToolError, Unreachable, exception_name, java_name
from broker.tools.client.properties import Properties, key_values
from broker.tools.client.settings import client_settings, parse_bootstrap
from broker.wire.errors import ErrorCode


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("a:1", [("a", 1)]),
        ("a:1, b.example-1.org:65535,", [("a", 1), ("b.example-1.org", 65535)]),
        ("[::1]:9092", [("::1", 9092)]),
        ("PLAINTEXT://a:1", [("a", 1)]),
    ],
)
def test_bootstrap_list_is_hosts_and_ports(text: str, addresses: list[tuple[str, int]]) -> None:
    assert parse_bootstrap(text) == tuple(Address(*one) for one in addresses)


@pytest.mark.parametrize("text", ["a", "a:", ":1", "a:0", "a:65536", "a:x", "::1:9092", "a:1;b:2"])
def test_wrong_address_is_named(text: str) -> None:
    with pytest.raises(ToolError, match=r"Invalid url in bootstrap\.servers: "):
        parse_bootstrap(f"ok:1,{text}")


def test_empty_bootstrap_list_is_refused() -> None:
    with pytest.raises(ToolError, match="No resolvable bootstrap urls"):
        parse_bootstrap(" , ")


def test_settings_have_kafkas_defaults() -> None:
    settings = client_settings(Properties({"bootstrap.servers": "a:1"}), "me")
    assert settings[1:] == ("me", 30.0, 60.0, 0.1, 1.0, 10.0)


def test_settings_of_the_file_are_taken_and_others_reported() -> None:
    properties = Properties(
        {
            "bootstrap.servers": "a:1",
            "client.id": "x",
            "request.timeout.ms": "500",
            "no.such": "1",
            "sasl.mechanism": "P",
        }
    )
    settings = client_settings(properties, "me")
    assert (settings.client_id, settings.request_timeout) == ("x", 0.5)
    assert properties.unread() == ["no.such", "sasl.mechanism"]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("request.timeout.ms", "soon", "request.timeout.ms=soon: it must be a whole number from 0 to 2147483647"),
        ("request.timeout.ms", "-1", "request.timeout.ms=-1: it must be a whole number"),
        ("security.protocol", "SSL", "security.protocol=SSL: this client speaks PLAINTEXT only"),
    ],
)
def test_wrong_setting_is_named_with_its_value(name: str, value: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        client_settings(Properties({"bootstrap.servers": "a:1", name: value}), "me")


def test_flags_are_true_or_false() -> None:
    assert Properties({"x": "TRUE"}).flag("x", False)
    assert Properties({}).flag("x", True)
    with pytest.raises(ToolError, match="x=yes: it must be true or false"):
        Properties({"x": "yes"}).flag("x", True)


def test_pairs_keep_equals_signs_in_values() -> None:
    assert key_values(["a=b=c", "d"]) == {"a": "b=c", "d": ""}
    with pytest.raises(ToolError, match="Missing value for key d"):
        key_values(["d"], empty_allowed=False)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, "UnknownMemberIdException"),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, "NotLeaderOrFollowerException"),
        (ErrorCode.NON_EMPTY_GROUP, "GroupNotEmptyException"),
        (ErrorCode.TOPIC_ALREADY_EXISTS, "TopicExistsException"),
        (9999, "Unknown9999Exception"),
    ],
)
def test_errors_have_the_names_of_kafkas_exceptions(code: int, name: str) -> None:
    assert exception_name(code) == name


def test_error_has_the_brokers_words_or_its_own() -> None:
    assert BrokerError(ErrorCode.NON_EMPTY_GROUP).java == (
        "org.apache.kafka.common.errors.GroupNotEmptyException: The group is not empty."
    )
    assert str(BrokerError(ErrorCode.NON_EMPTY_GROUP, "Members are there.")) == "Members are there."
    late = TimedOut("listTopics", Unreachable("a:1: refused"))
    assert java_name(late).startswith("org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node")
    assert java_name(ToolError("no")) == "no"
