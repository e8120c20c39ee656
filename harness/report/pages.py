"""How the lab's pages are rendered: from a package's templates, values escaped, a missing one an error."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape


def environment(package: str) -> Environment:
    """Of the templates in `<package>/templates`."""
    return Environment(
        loader=PackageLoader(package, "templates"),
        autoescape=select_autoescape(["html", "svg"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
