from __future__ import annotations

import base64

import pytest

from broker.tools.client.errors import ToolError
from broker.tools.configs.command import changes, parser, setting_line
from broker.tools.configs.entities import Entities, check_alter, entities, parse_added
from broker.tools.configs.quotas import credential
from broker.wire.messages.alter_user_scram_credentials import ScramCredentialUpsertion
from broker.wire.messages.describe_configs import DescribeConfigsResourceResult, DescribeConfigsSynonym

SERVER = ("--bootstrap-server", "a:1")


def named(*words: str) -> Entities:
    return entities(parser().parse_args([*SERVER, "--describe", *words]))


@pytest.mark.parametrize(
    ("words", "types", "names"),
    [
        ("--entity-type topics --entity-name t", ("topics",), ("t",)),
        ("--topic t", ("topics",), ("t",)),
        ("--broker 1", ("brokers",), ("1",)),
        ("--broker-defaults", ("brokers",), ("",)),
        ("--entity-type brokers --entity-default", ("brokers",), ("",)),
        ("--entity-type users --entity-default --entity-type clients --entity-name c", ("users", "clients"), ("", "c")),
        ("--entity-type users --entity-name u --entity-type clients --entity-default", ("users", "clients"), ("u", "")),
        ("--user u --client c", ("clients", "users"), ("c", "u")),
        ("--entity-type ips --entity-name ::1", ("ips",), ("::1",)),
        ("--entity-type topics", ("topics",), ()),
    ],
)
def test_entities_are_read_with_their_names_in_order(words: str, types: tuple[str, ...], names: tuple[str]) -> None:
    assert named(*words.split()) == Entities(types, names)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "At least one entity type"),
        ("--entity-type topic", "Invalid entity type topic, the entity type must be one of topics, clients, users"),
        ("--entity-type users --entity-type users", r"Duplicate entity type\(s\) specified: users"),
        (
            "--entity-type users --entity-type topics",
            "Only 'users' and 'clients' entity types may be specified together",
        ),
        ("--topic t --entity-type topics", "should not be used in conjunction with specific entity flags"),
        ("--broker one", "must be a valid integer broker id, but it is: one"),
        ("--ip a_b", "must be a valid IP or resolvable host, but it is: a_b"),
    ],
)
def test_entities_that_cannot_be_meant_are_refused(words: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        named(*words.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--topic t", "At least one of --add-config, --add-config-file, or --delete-config"),
        ("--topic t --add-config a=b --add-config-file f", "Only one of"),
        ("--entity-type topics --add-config a=b", "an entity name must be specified with --alter of topics"),
        ("--entity-type users --add-config a=b", "an entity-name or default entity must be specified with --alter"),
        ("--entity-type users --entity-type clients --entity-name u --add-config a=b", "for every entity type"),
    ],
)
def test_alter_needs_names_and_something_to_change(words: str, said: str) -> None:
    options = parser().parse_args([*SERVER, "--alter", *words.split()])
    with pytest.raises(ToolError, match=said):
        check_alter(entities(options), options)


def test_settings_with_commas_stand_in_brackets() -> None:
    assert parse_added("a=1,cleanup.policy=[compact,delete], b =") == {
        "a": "1",
        "cleanup.policy": "compact,delete",
        "b": "",
    }
    assert parse_added("SCRAM-SHA-256=[iterations=8192,password=pw]") == {
        "SCRAM-SHA-256": "iterations=8192,password=pw"
    }


@pytest.mark.parametrize("wrong", ["a", "a=b=c", "a=1,b"])
def test_settings_without_a_value_are_refused(wrong: str) -> None:
    with pytest.raises(ToolError, match="must be in the format"):
        parse_added(wrong)


def test_names_with_other_characters_are_refused() -> None:
    with pytest.raises(ToolError, match="Invalid character found for config key: a b"):
        parse_added("a b=1")


def test_deleted_settings_are_separated_by_commas() -> None:
    options = parser().parse_args(
        [*SERVER, "--alter", "--topic", "t", "--delete-config", "a, b", "--add-config", "c=d"]
    )
    assert changes(options) == ({"c": "d"}, ["a", "b"])


def test_setting_is_shown_with_its_sources() -> None:
    synonyms = [DescribeConfigsSynonym("x", "1", 1), DescribeConfigsSynonym("log.x", None, 5)]
    assert setting_line(DescribeConfigsResourceResult("x", "1", synonyms=synonyms)) == (
        "  x=1 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:x=1, DEFAULT_CONFIG:log.x=null}"
    )
    assert setting_line(DescribeConfigsResourceResult("p", None, is_sensitive=True)) == (
        "  p=null sensitive=true synonyms={}"
    )


def test_credential_is_salted_as_scram_says() -> None:
    """The example of RFC 7677: this salted password yields the proof and the signature that stand there."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = bytes.fromhex("c4a49510323ab4f952cac1fa99441939e78ea74d6be81ddf7096e87513dc615d")
    expected = ScramCredentialUpsertion("user", 1, 4096, salt, salted)
    assert credential("user", "SCRAM-SHA-256", "iterations=4096,password=pencil", salt) == expected
    assert credential("user", "SCRAM-SHA-256", "password=pencil", salt) == expected
    assert len(credential("user", "SCRAM-SHA-512", "password=pencil").salted_password) == 64


@pytest.mark.parametrize(
    ("text", "said"),
    [("pencil", "Invalid credential property"), ("iterations=1,password=x", "less than the minimum 4096")],
)
def test_wrong_credentials_are_refused(text: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        credential("user", "SCRAM-SHA-256", text)
