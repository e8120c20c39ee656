"""Names of a run's folder, and what is asked of a file of this machine by whichever name."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from checkers.spark.places import (
    UnknownPlace,
    address,
    end_of,
    is_file,
    is_folder,
    lines_with,
    named,
    put,
    remove,
    sha256_of,
    size_of,
    sizes_below,
)
from harness.runs.store import StoreError, local_path

pytestmark = pytest.mark.guarantee("V7")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("store/demo/latest", Path("store/demo/latest")),
        ("/srv/runs/a b", Path("/srv/runs/a b")),
        ("file:///srv/runs/demo", Path("/srv/runs/demo")),
        ("file://localhost/srv/runs/a%20b", Path("/srv/runs/a b")),
        ("FILE:///srv", Path("/srv")),
        ("s3a://bucket/runs/demo/", "s3a://bucket/runs/demo"),
        ("hdfs:///runs/demo", "hdfs:///runs/demo"),
    ],
)
def test_folder_is_named_by_a_path_or_by_a_uri(text: str, place: Path | str) -> None:
    assert named(text) == place
    # The command line, which knows nothing of the checkers, takes it for the same.
    assert local_path(text) == (place if isinstance(place, Path) else None)


@pytest.mark.parametrize("text", ["file://host/srv/runs", "file://"])
def test_file_uri_of_another_host_is_refused(text: str) -> None:
    with pytest.raises(UnknownPlace, match="names no host, but a whole path: file:///srv/runs/demo") as refused:
        named(text)
    with pytest.raises(StoreError, match=re.escape(str(refused.value))):
        local_path(text)


@pytest.mark.parametrize(
    ("text", "should_be"),
    [
        ("hdfs://namenode", "hdfs://namenode/runs/demo"),
        ("hdfs://namenode:8020//", "hdfs://namenode:8020/runs/demo"),
        ("s3a://bucket/", "s3a://bucket/runs/demo"),
        ("hdfs:///", "hdfs:///runs/demo"),
    ],
)
def test_uri_that_names_no_folder_is_refused_with_one_that_does(text: str, should_be: str) -> None:
    said = f"{text}: names a file system, and no folder there; should be that of a run: {should_be}"
    for ask, error in ((named, UnknownPlace), (local_path, StoreError)):
        with pytest.raises(error, match=f"^{re.escape(said)}$"):
            ask(text)


def test_address_of_a_path_is_not_percent_encoded() -> None:
    assert address(Path("/srv/a b%")) == "file:///srv/a b%"


def test_file_of_this_machine_is_asked_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "below" / "f"
    file.parent.mkdir()
    file.write_bytes(b"one\ntwo\nthree, one\n")
    assert (is_file(file), is_folder(file), size_of(file)) == (True, False, 19)
    assert (is_file(tmp_path), is_folder(tmp_path), size_of(tmp_path / "none")) == (False, True, 0)
    assert dict(sizes_below(tmp_path)) == {"below/f": 19}
    assert dict(sizes_below(tmp_path / "none")) == {}
    assert (end_of(file, 4), end_of(file, 100)) == (b"one\n", file.read_bytes())
    assert list(lines_with(file, "one")) == [b"one\n", b"three, one\n"]
    assert sha256_of(file) == hashlib.sha256(file.read_bytes()).hexdigest()


def test_file_of_this_machine_is_put_and_removed(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "new" / "b"
    source.write_text("x")
    put(source, source)
    put(source, target)
    assert (source.read_text(), target.read_text()) == ("x", "x")
    remove(target.parent)
    remove(target.parent)
    remove(source)
    assert list(tmp_path.iterdir()) == []
