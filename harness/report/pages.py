"""How the lab's pages are rendered: from a package's templates, values escaped, a missing one an error."""

from __future__ import annotations

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape


def environment(*packages: str) -> Environment:
    """Of the templates in `<package>/templates`; of two with one name, the earlier package's."""
    return Environment(
        loader=ChoiceLoader([PackageLoader(package, "templates") for package in packages]),
        autoescape=select_autoescape(["html", "svg"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
