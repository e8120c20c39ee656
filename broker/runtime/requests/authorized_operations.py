"""What a client may do, as bit fields: everything, since nobody is refused anything here. Pure.

Source: AclOperation, AclEntry.supportedOperations, AuthHelper.authorizedOperations without an authorizer.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class _Operation(IntEnum):
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


def _bits(*operations: _Operation) -> int:
    return sum(1 << operation for operation in operations)


NOT_REQUESTED: Final = -(2**31)
"""In place of a bit field that the client did not request."""

ON_TOPIC: Final = _bits(
    _Operation.READ,
    _Operation.WRITE,
    _Operation.CREATE,
    _Operation.DELETE,
    _Operation.ALTER,
    _Operation.DESCRIBE,
    _Operation.DESCRIBE_CONFIGS,
    _Operation.ALTER_CONFIGS,
)
ON_CLUSTER: Final = _bits(
    _Operation.CREATE,
    _Operation.ALTER,
    _Operation.DESCRIBE,
    _Operation.CLUSTER_ACTION,
    _Operation.DESCRIBE_CONFIGS,
    _Operation.ALTER_CONFIGS,
    _Operation.IDEMPOTENT_WRITE,
)
ON_GROUP: Final = _bits(_Operation.READ, _Operation.DELETE, _Operation.DESCRIBE)
