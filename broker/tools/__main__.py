"""`python -m broker.tools NAME OPTIONS`: a tool without the program `highwater`."""

from __future__ import annotations

import sys

from broker.tools.commands import COMMANDS, run


def main(arguments: list[str]) -> int:
    """Exit code of the tool; 1 where none of that name is there."""
    if not arguments or arguments[0] not in COMMANDS:
        print(f"which tool? {', '.join(COMMANDS)}", file=sys.stderr)
        return 1
    return run(arguments[0], arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
