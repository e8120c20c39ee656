"""Lines of an event log as Arrow can read them: maps by broker as lists of their entries, lists of one type.

Changes what the broker writes in its own form, and nothing else: whatever looks otherwise stays as it is, and then
Arrow refuses the line (see checkers/history/lines.py). Knows two fields that are maps, and one that lists lists.
"""

from __future__ import annotations

import re

_NUMBER = rb"(?:0|-?[1-9][0-9]*)"
_MAP = re.compile(rb'"(leos|bes)":\{((?:"[0-9]+":' + _NUMBER + rb'(?:,"[0-9]+":' + _NUMBER + rb")*)?)\}")
_ENTRY = re.compile(rb'("[0-9]+"):(' + _NUMBER + rb")")
_PARTS = re.compile(rb'"parts":\[(?:\[[^\]\[]*\],?)*\]')
_NUMBER_IN_LIST = re.compile(rb"(?<=[\[,])(" + _NUMBER + rb")(?=[\],])")
_UNSURE = re.compile(rb'\\u|"(?:leos|bes)"\s*:\s*\[')


def put(lines: bytes) -> bytes | None:
    """Numbers among the parts as texts, as Spark reads them there. None where a map is a list already, be its name
    escaped, or names a broker twice: Arrow would take it.
    """
    if _UNSURE.search(lines):
        return None
    twice = False

    def listed(found: re.Match[bytes]) -> bytes:
        nonlocal twice
        entries: list[tuple[bytes, bytes]] = _ENTRY.findall(found[2])
        twice = twice or len({key for key, _ in entries}) < len(entries)
        return b'"%b":[%b]' % (found[1], b",".join(b'{"key":%b,"value":%b}' % entry for entry in entries))

    lines = _MAP.sub(listed, lines)
    lines = _PARTS.sub(lambda found: _NUMBER_IN_LIST.sub(rb'"\1"', found[0]), lines)
    return None if twice else lines
