"""Writes `broker/wire/messages/*.py` for the cold APIs from Kafka's own message definitions.

    python -m tools.messages KAFKA_CLIENTS_JAR [--check]

Kafka keeps one JSON file for each request and response, inside its clients' jar under `common/message/`. This tool
reads them, leaves out the fields that no version of `broker.wire.api.SUPPORTED` has, and writes one module for each
API that `tools/messages.toml` names. That file also says what Kafka's files do not: a module's docstring, other names
of classes and fields, and fields that only highwater's brokers know. --check writes nothing, and ends with 1 where a
module is not what the definitions make it.

Source: clients/src/main/resources/common/message/README.md in Kafka; KIP-482 (flexible versions, tagged fields).
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from broker.wire.api import FLEXIBLE_FROM, NEVER_FLEXIBLE, SUPPORTED, ApiKey, VersionRange
from broker.wire.fields import parse_versions

ROOT = Path(__file__).resolve().parents[1]
CHOICES = ROOT / "tools" / "messages.toml"
FOLDER = ROOT / "broker" / "wire" / "messages"

_NUMBERS = {"int8", "int16", "int32", "int64"}
_ARRAYS = {"int32": "int32_array", "int64": "int64_array", "string": "string_array"}
_NULLABLE_ARRAYS = {"int32": "nullable_int32_array", "string": "nullable_string_array"}


class Unwritable(Exception):
    """A definition that this tool, or `broker.wire.fields`, has no words for; the text names API, field and type."""


def definition(jar: zipfile.ZipFile, name: str) -> dict[str, Any]:
    """`common/message/NAME.json`, whose `//` comments JSON does not know. Raises Unwritable where there is none."""
    try:
        text = jar.read(f"common/message/{name}.json").decode()
    except KeyError:
        raise Unwritable(f"{jar.filename}: no common/message/{name}.json; is it Kafka's clients' jar?") from None
    found: dict[str, Any] = json.loads(re.sub(r"^\s*//.*$|(?<=[,{\[\]}])\s*//.*$", "", text, flags=re.MULTILINE))
    return found


def snake(name: str) -> str:
    """`TopicId` → `topic_id`, `IsKRaftController` → `is_kraft_controller`."""
    name = name.replace("KRaft", "Kraft")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


class Writer:
    """The classes of one message, innermost first."""

    def __init__(self, api: ApiKey, message: Mapping[str, Any], choices: Mapping[str, Any]) -> None:
        self.api = api
        self.message = message
        self.name = str(message["name"])
        self.choices = choices.get(self.name, {})
        self.used: set[str] = {"Message"}
        self.classes: list[str] = []
        self._common = {one["name"]: one["fields"] for one in message.get("commonStructs", ())}
        self._written: set[str] = set()

    def write(self) -> None:
        """Fill `classes` and `used`, the names that the module has to import. Raises Unwritable."""
        valid, flexible = parse_versions(self.message["validVersions"]), self.message["flexibleVersions"]
        served = SUPPORTED[self.api]
        if served.first not in valid or served.last not in valid:
            raise Unwritable(f"{self.name}: broker.wire.api serves {served}, Kafka has {self.message['validVersions']}")
        first_flexible = parse_versions(flexible).first if flexible != "none" else NEVER_FLEXIBLE
        if first_flexible != FLEXIBLE_FROM[self.api]:
            raise Unwritable(f"{self.name}: flexible from {flexible}, broker.wire.api says {FLEXIBLE_FROM[self.api]}")
        lines = list(self._fields(self.name, self.message["fields"]))
        head = f"    API: ClassVar[ApiKey] = ApiKey.{self.api.name}\n"
        body = head + ("\n" + "".join(lines) if lines else "")
        self.classes.append(f"@dataclass(slots=True)\nclass {self.name}(Message):\n{self._doc(self.name)}{body}")

    def _class_of(self, name: str) -> str:
        return str(self.choices.get("classes", {}).get(name, name))

    def _struct(self, name: str, fields: list[Mapping[str, Any]]) -> str:
        """Write the class of a struct, once; returns its name here."""
        mine = self._class_of(name)
        if mine not in self._written:
            self._written.add(mine)
            self.used.add("Struct")
            lines = "".join(self._fields(mine, fields))
            self.classes.append(f"@dataclass(slots=True)\nclass {mine}(Struct):\n{self._doc(mine)}{lines}")
        return mine

    def _doc(self, owner: str) -> str:
        text = self.choices.get("docs", {}).get(owner)
        return f'    """{text}"""\n\n' if text else ""

    def _fields(self, owner: str, fields: list[Mapping[str, Any]]) -> Iterator[str]:
        served = SUPPORTED[self.api]
        renamed = self.choices.get("fields", {})
        for field in fields:
            own_name = snake(field["name"])
            name = renamed.get(f"{owner}.{own_name}", own_name)
            if _overlaps(served, field["versions"]):
                yield self._field(owner, name, field)
        for name, extra in self.choices.get("own", {}).get(owner, {}).items():
            self.used |= {"OWN_TAG", extra["kind"]}
            default = f", {extra['default']}" if "default" in extra else ""
            ignorable = ", ignorable=True" if extra.get("ignorable", True) else ""
            typed = {"boolean": "bool", "uuid": "str"}.get(extra["kind"], "int")
            since = extra["versions"]
            own = f'("{since}"{default}, tag=OWN_TAG, tagged="{since}"{ignorable})'
            yield f"    {name}: {typed} = {extra['kind']}{own}\n"
            if "doc" in extra:
                yield f'    """{extra["doc"]}"""\n'

    def _field(self, owner: str, name: str, field: Mapping[str, Any]) -> str:
        kind, versions, default = str(field["type"]), str(field["versions"]), field.get("default")
        nullable = field.get("nullableVersions")
        more = f', tag={field["tag"]}, tagged="{field["taggedVersions"]}"' if "tag" in field else ""
        more += ", ignorable=True" if field.get("ignorable") else ""
        if kind.startswith("[]"):
            typed, call = self._array(owner, name, field, kind[2:], versions, nullable, more)
        elif kind == "bool":
            self.used.add("boolean")
            value = ", True" if str(default).lower() == "true" else ""
            typed, call = "bool", f'boolean("{versions}"{value}{more})'
        elif kind in _NUMBERS:
            self.used.add(kind)
            value = f", {int(str(default), 0)}" if default is not None and int(str(default), 0) else ""
            typed, call = "int", f'{kind}("{versions}"{value}{more})'
        elif kind == "bytes" and nullable is None:
            self.used.add("byte_string")
            typed, call = "bytes", f'byte_string("{versions}"{more})'
        elif kind == "float64":
            self.used.add("float64")
            typed, call = "float", f'float64("{versions}"{more})'
        elif kind == "uuid":
            self.used.add("uuid")
            typed, call = "str", f'uuid("{versions}"{more})'
        elif kind == "string":
            typed, call = self._string(versions, nullable, default, more)
        else:
            raise Unwritable(f"{self.name}: {owner}.{name} is of type {kind}, which broker.wire.fields cannot declare")
        return f"    {name}: {typed} = {call}\n"

    def _string(self, versions: str, nullable: str | None, default: Any, more: str) -> tuple[str, str]:
        if nullable is None or not _overlaps(SUPPORTED[self.api], nullable):
            self.used.add("string")
            value = f', "{default}"' if default else ""
            return "str", f'string("{versions}"{value}{more})'
        self.used.add("nullable_string")
        # What may be null in all its versions is null unless somebody sets it: no text is not an empty text.
        always = parse_versions(nullable).first <= max(parse_versions(versions).first, SUPPORTED[self.api].first)
        value = "" if always else f', "{default or ""}"'
        return "str | None", f'nullable_string("{versions}"{value}{_nullable(nullable)}{more})'

    def _array(
        self, owner: str, name: str, field: Mapping[str, Any], kind: str, versions: str, nullable: str | None, more: str
    ) -> tuple[str, str]:
        if kind[0].islower():
            if kind not in (_NULLABLE_ARRAYS if nullable else _ARRAYS):
                raise Unwritable(f"{self.name}: {owner}.{name} is an array of {kind}, which broker.wire.fields lacks")
            typed = "int" if kind in _NUMBERS else "str"
            call = _NULLABLE_ARRAYS[kind] if nullable else _ARRAYS[kind]
            self.used.add(call)
            optional = " | None" if nullable else ""
            return f"list[{typed}]{optional}", f'{call}("{versions}"{_nullable(nullable)}{more})'
        element = self._struct(kind, field.get("fields") or self._common[kind])
        if nullable is None:
            self.used.add("array")
            return f"list[{element}]", f'array({element}, "{versions}"{more})'
        self.used.add("nullable_array")
        null = field.get("default") == "null" or f"{owner}.{name}" in self.choices.get("null", ())
        absent = ", null_default=True" if null else ""
        return f"list[{element}] | None", f'nullable_array({element}, "{versions}"{_nullable(nullable)}{absent}{more})'


def _nullable(versions: str | None) -> str:
    return f', nullable="{versions}"' if versions and versions != "0+" else ""


def _overlaps(served: VersionRange, versions: str) -> bool:
    mine = parse_versions(versions)
    return mine.first <= served.last and served.first <= mine.last


def module(jar: zipfile.ZipFile, name: str, choices: Mapping[str, Any]) -> str:
    """The text of `broker/wire/messages/NAME.py`, unformatted."""
    api = ApiKey[name.upper()]
    stem = choices.get("kafka") or "".join(part.capitalize() for part in name.split("_"))
    parts = [Writer(api, definition(jar, f"{stem}{end}"), choices) for end in ("Request", "Response")]
    for part in parts:
        part.write()
    used = parts[0].used | parts[1].used
    schema, fields = sorted(used & {"Message", "Struct"}), sorted(used - {"Message", "Struct"})
    doc = str(choices["doc"]).strip()
    imports = (
        "from __future__ import annotations\n\nfrom dataclasses import dataclass\nfrom typing import ClassVar\n\n"
        f"from broker.wire.api import ApiKey\nfrom broker.wire.fields import {', '.join(fields)}\n"
        f"from broker.wire.schema import {', '.join(schema)}\n"
    )
    source = f"Written by tools/messages.py.\nSource: {stem}Request.json, {stem}Response.json."
    constants = "".join(f"{constant}: Final = {value}\n" for constant, value in choices.get("constants", {}).items())
    if constants:
        imports = imports.replace("import ClassVar", "import ClassVar, Final")
    classes = "\n\n".join(text for part in parts for text in part.classes)
    return f'"""{doc}\n\n{source}\n"""\n\n{imports}\n{constants}\n\n{classes}'


def formatted(text: str) -> str:
    """As ruff leaves it: imports sorted and wrapped, lines broken at the project's length."""
    ruff = Path(sys.executable).with_name("ruff")
    for command in (["check", "--select", "I", "--fix", "-q"], ["format", "-q"]):
        done = subprocess.run(
            [ruff, *command, "--stdin-filename", str(FOLDER / "generated.py"), "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        text = done.stdout
    return text


def modules(jar: Path) -> dict[Path, str]:
    """Path → text of every module that tools/messages.toml names. Raises Unwritable."""
    choices = tomllib.loads(CHOICES.read_text(encoding="utf-8"))
    with zipfile.ZipFile(jar) as archive:
        return {FOLDER / f"{name}.py": formatted(module(archive, name, one)) for name, one in choices.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("jar", type=Path, help="Kafka's kafka-clients-VERSION.jar")
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 where a module differs")
    args = parser.parse_args()
    try:
        made = modules(args.jar)
    except (Unwritable, OSError, zipfile.BadZipFile) as error:
        print(f"tools.messages: {error}", file=sys.stderr)
        return 2
    differing = [path for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in differing:
        print(f"{'differs' if args.check else 'written'}: {path.relative_to(ROOT)}")
        if not args.check:
            path.write_text(made[path], encoding="utf-8")
    return 1 if args.check and differing else 0


if __name__ == "__main__":
    sys.exit(main())
