"""Reads GitHub linguist's attributes from the `.gitattributes` files of a commit.

https://github.com/github-linguist/linguist/blob/main/docs/overrides.md
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipeline.codebase.commit import Codebase, File
from pipeline.codebase.git import git
from pipeline.context.files.filters import SkipReason
from sandbox.scratch import scratch_folder

_REASONS: dict[str, SkipReason] = {
    "linguist-generated": "generated",
    "linguist-vendored": "vendored",
    "linguist-documentation": "documentation",
}
_YES, _NO = ("set", "true"), ("unset", "false")
_LARGEST = 1_000_000
"""Bytes; larger attribute files are ignored."""
_AT_ONCE = 20_000

Attributes = dict[SkipReason, bool]


async def read_attributes(codebase: Codebase, files: Sequence[File]) -> dict[str, Attributes]:
    """The attributes of each of `files`, by path: for each reason whether it holds.

    git itself evaluates them, including nested files, negations and macros, in an index that holds
    nothing else; nothing is checked out and no filter runs.
    """
    sheets = await _find_attribute_files(codebase)
    if not sheets:
        return {}
    attributes: dict[str, Attributes] = {}
    with scratch_folder("attributes") as folder:
        env = {"GIT_INDEX_FILE": str(folder / "index")}
        listed = b"".join(f"100644 {f.blob}\t{f.path}\0".encode() for f in sheets)
        await git(codebase.git_dir, "update-index", "-z", "--index-info", input=listed, env=env)
        for start in range(0, len(files), _AT_ONCE):
            paths = b"".join(f.path.encode() + b"\0" for f in files[start : start + _AT_ONCE])
            output = await git(
                codebase.git_dir, "check-attr", "--cached", "--stdin", "-z", *_REASONS,
                input=paths, env=env,
            )  # fmt: skip
            _parse_attributes(output, attributes)
    return attributes


async def _find_attribute_files(codebase: Codebase) -> list[File]:
    """The attribute files; empty if none mentions linguist."""
    named = [
        file
        for file in codebase.files.values()
        if file.path.rpartition("/")[2] == ".gitattributes"
        and file.regular
        and file.size <= _LARGEST
    ]
    if not named:
        return []
    contents = await codebase.read_all(file.path for file in named)
    return named if any(b"linguist-" in data for data in contents.values()) else []


def _parse_attributes(output: bytes, attributes: dict[str, Attributes]) -> None:
    fields = iter(output.decode().split("\0"))
    for path, name, value in _triples(fields):
        if value in _YES or value in _NO:
            attributes.setdefault(path, {})[_REASONS[name]] = value in _YES


def _triples(fields: Iterable[str]) -> Iterable[tuple[str, str, str]]:
    three = iter(fields)
    return zip(three, three, three, strict=False)
