from __future__ import annotations

from broker.tools.client.cluster import Node
from broker.tools.client.connection import Address
from broker.tools.client.groups import Committed, Group, Member
from broker.tools.groups import lines
from broker.wire.messages.list_groups import ListedGroup

NODE = Node(2, Address("10.0.0.2", 9092), None)
LONG = "console-consumer-733a50db"
ONE = Member(LONG, "", "console-consumer", "/127.0.0.1", (("a", 0), ("a", 1), ("b", 10), ("b", 9)))
TWO = Member("m2", "", "c2", "/127.0.0.1", (("a", 2),))


def group(*members: Member, state: str = "Stable") -> Group:
    return Group("g", state, "range", members, NODE)


def committed(**offsets: int) -> dict[tuple[str, int], Committed]:
    return {(name[0], int(name[1:])): Committed(offset, -1, "") for name, offset in offsets.items()}


def test_list_is_names_alone_or_a_table() -> None:
    groups = [ListedGroup("g1", "consumer", "Stable", "classic"), ListedGroup("a-long-group-name", "consumer", "", "")]
    assert lines.listed(groups, types=False, states=False) == ["g1", "a-long-group-name"]
    assert lines.listed(groups, types=True, states=True) == [
        "GROUP                       TYPE                 STATE               ",
        "g1                          Classic              Stable              ",
        "a-long-group-name           Unknown              Unknown             ",
    ]
    assert lines.listed([], types=False, states=True) == ["GROUP                     STATE               "]


def test_rows_begin_with_whoever_has_most_and_end_with_what_nobody_has() -> None:
    found = lines.offset_rows(group(TWO, ONE), committed(a0=5, c3=7), {("a", 0): 9, ("c", 3): 7, ("a", 2): 1})
    assert [(row.topic, row.partition, row.offset, row.end, row.member and row.member.id) for row in found] == [
        ("a", 0, 5, 9, LONG),
        ("a", 1, None, None, LONG),
        ("b", 10, None, None, LONG),
        ("b", 9, None, None, LONG),
        ("a", 2, None, 1, "m2"),
        ("c", 3, 7, 7, None),
    ]


def test_offsets_are_a_table_with_lag() -> None:
    owned = Member(LONG, "", "c1", "/127.0.0.1", (("a", 0),))
    rows = lines.offset_rows(group(owned), committed(a0=5, c3=7), {("a", 0): 9})
    assert lines.offsets(group(owned), rows) == [
        "",
        "GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             "
        "CONSUMER-ID               HOST            CLIENT-ID",
        f"g               a               0          5               9               4               {LONG} "
        "/127.0.0.1      c1",
        "g               c               3          7               -               -               "
        "-                         -               -",
    ]
    assert lines.offsets(group(), []) == []


def test_members_have_a_column_of_instance_ids_only_if_one_has_an_id() -> None:
    assert lines.members(group(ONE), verbose=True) == [
        "",
        "GROUP           CONSUMER-ID               HOST            CLIENT-ID        #PARTITIONS     ASSIGNMENT",
        f"g               {LONG} /127.0.0.1      console-consumer 4               (0,1), (10,9)",
    ]
    static = Member("m3", "one", "c3", "/127.0.0.1", ())
    assert lines.members(group(static), verbose=False) == [
        "",
        "GROUP           CONSUMER-ID     GROUP-INSTANCE-ID HOST            CLIENT-ID       #PARTITIONS     ",
        "g               m3              one               /127.0.0.1      c3              0               ",
    ]
    assert lines.members(group(static), verbose=True)[2].endswith(" -")


def test_state_names_the_coordinator() -> None:
    assert lines.state(group(ONE, TWO)) == [
        "",
        "GROUP                     COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE           #MEMBERS",
        "g                         10.0.0.2:9092  (2)        range                Stable          2",
    ]


def test_what_is_said_of_a_group_that_is_not_at_work() -> None:
    assert lines.remark(group(state="Stable")) is None
    assert lines.remark(group(state="Empty")) == "\nConsumer group 'g' has no active members."
    assert lines.remark(group(state="PreparingRebalance")) == "\nWarning: Consumer group 'g' is rebalancing."
    assert lines.remark(group(state="Dead")) == "\nError: Consumer group 'g' does not exist."


def test_reset_is_a_table() -> None:
    assert lines.reset_table({"g": {("t", 1): 28, ("t", 0): 3}}) == [
        "",
        "GROUP                          TOPIC                          PARTITION  NEW-OFFSET     ",
        "g                              t                              0          3              ",
        "g                              t                              1          28             ",
    ]
