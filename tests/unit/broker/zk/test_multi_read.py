"""Many znodes in one response of ZooKeeper, byte by byte."""

from __future__ import annotations

import struct

import pytest
from kazoo.exceptions import NoAuthError

from broker.zk.multi_read import MultiRead, UnreadableResponse

pytestmark = pytest.mark.guarantee("controller-writes")

STAT = (1, 2, 3, 4, 5, 6, 7, 8, 3, 0, 9)
END = struct.pack(">i?i", -1, True, -1)
XID = b"before"


def read(data: bytes, stat: tuple[int, ...] = STAT) -> bytes:
    return struct.pack(">i?ii", 4, False, 0, len(data)) + data + struct.pack(">qqqqiiiqiiq", *stat)


def failed(code: int) -> bytes:
    return struct.pack(">i?ii", -1, False, code, code)


def test_request_names_each_znode_and_watches_none() -> None:
    get = struct.pack(">i?i", 4, False, -1)
    expected = get + struct.pack(">i", 2) + b"/a\0" + get + struct.pack(">i", 3) + "/é".encode() + b"\0" + END
    assert MultiRead(["/a", "/é"]).serialize() == expected


def test_each_znode_has_an_outcome_of_its_own() -> None:
    response = XID + read(b"one") + failed(-101) + read(b"") + END
    first, missing, empty = MultiRead(["/a", "/b", "/c"]).deserialize(response, len(XID))
    assert missing is None
    assert first is not None
    assert (first[0], first[1].version, first[1].czxid, first[1].mzxid) == (b"one", 5, 1, 2)
    assert empty == (b"", STAT)


def test_data_that_is_null_is_empty() -> None:
    null = struct.pack(">i?ii", 4, False, 0, -1) + struct.pack(">qqqqiiiqiiq", *STAT)
    assert MultiRead(["/a"]).deserialize(null + END, 0) == [(b"", STAT)]


def test_znode_that_may_not_be_read_is_an_error() -> None:
    with pytest.raises(NoAuthError):
        MultiRead(["/a"]).deserialize(failed(-102) + END, 0)


@pytest.mark.parametrize("response", [b"", END, read(b"one")[:-1], read(b"one"), read(b"one") + read(b"two") + END])
def test_what_an_older_server_may_respond_is_no_result(response: bytes) -> None:
    with pytest.raises(UnreadableResponse):
        MultiRead(["/a"]).deserialize(response, 0)
