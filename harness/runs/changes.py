"""What another judgement of the same run changed, in sentences; out of the two results.json.

Pure. Decides what of a judgement counts as a change: verdicts, reasons, counts and witnesses do, time and measures that
no rule judges do not. Believes nothing of what the files say. Must not know why there are two judgements.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

WITNESSES_SHOWN = 3
"""Of one checker, on each side; how many more there are is said."""


def changes(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """One line each, the run's verdict first; empty where nothing changed."""
    lines = []
    if (old := before.get("verdict")) != (new := now.get("verdict")):
        lines.append(f"verdict: {old}, now {new}")
    lines += _texts("the run as a whole", before.get("reasons"), now.get("reasons"))
    olds, news = _mapping(before.get("checkers")), _mapping(now.get("checkers"))
    for name in sorted(olds.keys() | news.keys()):
        if name not in olds:
            lines.append(f"{name}: not judged, now {_verdict(news[name])}")
        elif name not in news:
            lines.append(f"{name}: {_verdict(olds[name])}, now not judged")
        else:
            lines += _checker(name, _mapping(olds[name]), _mapping(news[name]))
    lines += _faults(before.get("faults"), now.get("faults"))
    return lines


def _checker(name: str, old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    lines = []
    if old.get("verdict") != new.get("verdict"):
        lines.append(f"{name}: {_verdict(old)}, now {_verdict(new)}")
    olds, news = _mapping(old.get("counts")), _mapping(new.get("counts"))
    lines += [
        f"{name}: {count} {_number(olds.get(count))}, now {_number(news.get(count))}"
        for count in sorted(olds.keys() | news.keys())
        if olds.get(count) != news.get(count)
    ]
    lines += _texts(name, old.get("reasons"), new.get("reasons"))
    return lines + _witnesses(name, old.get("witnesses"), new.get("witnesses"))


def _texts(name: str, old: object, new: object) -> list[str]:
    """Of reasons: those that came and those that went."""
    olds, news = _strings(old), _strings(new)
    came = [f"{name}: new: {text}" for text in news if text not in olds]
    return came + [f"{name}: no more: {text}" for text in olds if text not in news]


def _witnesses(name: str, old: object, new: object) -> list[str]:
    olds, news = _identified(old), _identified(new)
    lines = []
    for said, mine, others in (("new", news, olds), ("no more", olds, news)):
        one_sided = [text for key, text in mine.items() if key not in others]
        lines += [f"{name}: witness {said}: {text}" for text in one_sided[:WITNESSES_SHOWN]]
        if len(one_sided) > WITNESSES_SHOWN:
            lines.append(f"{name}: witness {said}: {len(one_sided) - WITNESSES_SHOWN} others")
    return lines


def _identified(witnesses: object) -> dict[str, str]:
    """What makes a witness the same one → its summary: what kind it is, of which record, in which words."""
    found = {}
    for witness in witnesses if isinstance(witnesses, list) else []:
        if isinstance(witness, dict):
            key = json.dumps([witness.get(part) for part in ("kind", "partition", "offset", "value", "summary")])
            found[key] = str(witness.get("summary"))
    return found


def _faults(old: object, new: object) -> list[str]:
    """Whether each fault was seen to begin, which only evidence that is read otherwise can change."""
    olds, news = _observed(old), _observed(new)
    words = {True: "observed", False: "not observed"}
    return [
        f"fault {number}: {words[olds[number]]}, now {words[news[number]]}"
        for number in olds
        if number in news and olds[number] != news[number]
    ]


def _observed(faults: object) -> dict[str, bool]:
    named = [fault for fault in faults if isinstance(fault, dict)] if isinstance(faults, list) else []
    return {str(fault.get("fault_id")): fault.get("observed") is True for fault in named}


def _verdict(checker: object) -> object:
    return _mapping(checker).get("verdict")


def _number(value: object) -> str:
    return "absent" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _strings(value: object) -> Sequence[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []
