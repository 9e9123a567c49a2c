"""Changed contents to a diff; which paths an edit may name."""

import asyncio
import hashlib
import os
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final, NamedTuple

from pipeline.codebase.commit import SUBMODULE, SYMLINK, Codebase, File, parse_objects
from pipeline.codebase.git import git
from pipeline.codebase.grammars import grammar_of
from pipeline.codebase.text import Globs
from pipeline.data.types import Patch
from sandbox.scratch import scratch_folder

_DOTTED = frozenset({".gitignore", ".changeset", ".changes"})
"""What an edit may touch of all that begins with a dot: the rest steers CI, editors, agents, bots,
package managers and git. A hostile issue could ask to change it."""
_STEERING = re.compile(
    r"(appveyor|azure-pipelines|bitbucket-pipelines|codefresh|codeship-steps|buildspec|cloudbuild"
    r"|zuul|lefthook)\.ya?ml|jenkinsfile|mise\.toml|renovate\.json5?|codeowners"
    r"|(agents|claude|gemini)\.md|(site|user)customize\.py|.*\.pth"
)
"""The same without a dot, wherever it lies."""
_RUN_BY_TOOLS = {
    *("conftest.py", "setup.py", "noxfile.py", "tasks.py", "dodo.py", "fabfile.py"),
    *("gulpfile.js", "gruntfile.js", "build.rs"),
}
"""Source that tools run by its name."""


# fmt: off
_LOCK_FILES = frozenset(
    {
        "poetry.lock", "uv.lock", "pdm.lock", "pipfile.lock", "pixi.lock", "conda-lock.yml",
        "pylock.toml", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml",
        "bun.lock", "bun.lockb", "cargo.lock", "go.sum", "gemfile.lock", "composer.lock",
        "mix.lock", "flake.lock",
    }
)
# fmt: on
"""Written by package managers; in lower case."""


def refusal(
    path: str,
    files: Mapping[str, File],
    never_touch: Iterable[str] = (),
    *,
    allow_lock_files: bool = False,
) -> str | None:
    """Why `path` may not be edited, as a sentence for the model; None if it may be."""
    for check in (check_form, check_guarded):
        if refused := check(path):
            return refused
    if refused := _check_file(path, files):
        return refused
    if not allow_lock_files and PurePosixPath(path).name.lower() in _LOCK_FILES:
        return f"{path} is a lock file, which a package manager writes: no edit may touch it."
    if pattern := Globs(never_touch).first_match(path):
        return f"This repository's settings forbid edits to {pattern}, which matches {path}."
    return None


def check_form(path: str) -> str | None:
    if any(unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") for letter in path):
        return f"The path {path!r} contains a control character."
    if not path or len(path.encode()) > 1024:
        return "A path must be neither empty nor longer than 1024 bytes."
    if path.startswith(("/", "~")) or "\\" in path or path[1:2] == ":":
        return f"The path {path!r} must be relative to the repository's root, with forward slashes."
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return f"The path {path!r} must be plain: no empty part, no `.` and no `..`."
    if any(len(part.encode()) > 255 or part != part.strip() for part in parts):
        return f"The path {path!r} has a part that is too long or begins or ends with a space."
    return None


def check_guarded(path: str) -> str | None:
    """Why no edit of any repository may touch `path`, as `refusal` says."""
    # Windows and macOS also treat .GIT, ".git ", .git::$INDEX_ALLOCATION and GIT~1 as .git.
    parts = [part.casefold().split(":")[0].rstrip(" .") for part in path.split("/")]
    if any(part == ".git" or part.startswith("git~") for part in parts):
        return f"The path {path!r} is git's own: no edit may touch it."
    if parts[-1] in (".gitmodules", ".gitattributes"):
        return f"No edit may touch {parts[-1]}."
    if parts[:2] == [".github", "workflows"]:
        return f"The path {path!r} is a workflow: no edit may touch .github/workflows."
    dotted = any(part.startswith(".") and part not in _DOTTED for part in parts)
    if dotted or _STEERING.fullmatch(parts[-1]):
        return f"The path {path!r} steers what runs or who reviews: no edit may touch it."
    return None


def check_new(path: str, files: Mapping[str, File]) -> str | None:
    """Why a file may not be new there, as a sentence; None if it may be.

    At the root, tools look for their settings: new there may only be documents, and source where
    the repository has some.
    """
    if "/" in path or path in files:
        return None
    suffix = PurePosixPath(path).suffix
    beside = {name.casefold() for name in files if "/" not in name and name.endswith(suffix)}
    is_source = suffix and beside - _RUN_BY_TOOLS and grammar_of(path)
    is_run = path.casefold() in _RUN_BY_TOOLS or ".config." in path
    if suffix in (".md", ".rst") or (is_source and not is_run):
        return None
    return f"{path} would be new at the repository's root, where tools read settings: no edit may."


def _check_file(path: str, files: Mapping[str, File]) -> str | None:
    for place in (path, *(str(parent) for parent in PurePosixPath(path).parents)):
        file = files.get(place)
        if file is None:
            continue
        if file.mode == SYMLINK:
            return f"{place} is a symbolic link: edit the file it stands for."
        if file.mode == SUBMODULE:
            return f"{place} is a submodule: it belongs to another repository."
        if place != path:
            return f"{place} is a file, so {path} cannot be in it."
    if path not in files and any(other.startswith(f"{path}/") for other in files):
        return f"{path} is a folder."
    return None


_CHANGED = "refs/heads/changed"


async def create_patch(
    codebase: Codebase, changes: Mapping[str, bytes | None], modes: Mapping[str, str] | None = None
) -> Patch:
    """Create the diff that makes `changes` in `codebase`; None deletes a file.

    `modes` are git's modes of new files that are not ordinary ones; a file there is keeps its own.

    The new objects go to a scratch repository that borrows the codebase's; its own stays as it is.
    A file that is not UTF-8 before or after appears as a binary patch, since a diff here is text.
    """
    before = await codebase.read_all(path for path in changes if path in codebase.files)
    binary = [
        path for path, data in changes.items() if not (is_utf8(data) and is_utf8(before.get(path)))
    ]
    commit = stream_commit(codebase, changes, _CHANGED, modes or {})
    # Samples often make the same edit.
    parts = (b"patch", commit, *(os.fsencode(path) for path in sorted(binary)))
    key = hashlib.sha256(b"\0".join(parts)).hexdigest()
    if (diff := codebase.recent.get(key)) is not None:
        return Patch(diff=diff.decode("utf-8"))
    with scratch_folder("patch") as scratch:
        await asyncio.to_thread(create_scratch_repository, scratch, codebase)
        await asyncio.to_thread(mark_binary, scratch, binary)
        # One process, which reads only the folders that change: an index would list every file.
        # It keeps its pack: unpacking would start a second process.
        keep = ("fastimport.unpackLimit=0",)
        await git(scratch, "fast-import", "--quiet", input=commit, config=keep)
        patch = await diff_to_tree(scratch, codebase, _CHANGED)
    codebase.recent.add(key, patch.diff.encode("utf-8"))
    return patch


class PatchedFile(NamedTuple):
    """A file as a patch leaves it."""

    content: bytes
    mode: str


NO_CHANGES: Final[Mapping[str, PatchedFile | None]] = MappingProxyType({})


async def read_patched(codebase: Codebase, diff: str) -> dict[str, PatchedFile | None]:
    """The files that a diff made by `create_patch` changes, as it leaves them; None: deleted.

    Raises:
        GitFailed: the diff does not apply to `codebase`.
    """
    if not diff:
        return {}
    with scratch_folder("patched") as scratch:
        await asyncio.to_thread(create_scratch_repository, scratch, codebase)
        await git(scratch, "read-tree", codebase.commit)
        data = diff.encode("utf-8", "surrogateescape")
        await git(scratch, "apply", "--cached", "--whitespace=nowarn", "-", input=data)
        _, changes = await write_tree(scratch, codebase)
        contents = await read_blobs(scratch, [change.blobs[1] for change in changes])
    return {
        change.path: PatchedFile(contents[blob], change.modes[1]) if blob in contents else None
        for change in changes
        for blob in change.blobs[1:]
    }


class TreeChange(NamedTuple):
    """What differs between two trees at one path: git's modes and blobs, before and after."""

    path: str
    modes: tuple[str, str]
    blobs: tuple[str, str]
    """Zeros where there is no file."""


async def write_tree(scratch: Path, codebase: Codebase) -> tuple[str, list[TreeChange]]:
    """The tree of the scratch repository's index, and how it differs from `codebase`.

    Raises:
        UnicodeDecodeError: a path is not UTF-8.
    """
    tree = (await git(scratch, "write-tree")).decode().strip()
    raw = await git(
        scratch, "diff-tree", "-r", "-z", "--raw", "--no-renames", codebase.commit, tree
    )
    fields = raw.split(b"\0")[:-1]
    changes: list[TreeChange] = []
    for facts, name in zip(fields[::2], fields[1::2], strict=True):
        old, new, before, after, _ = facts.decode("ascii").removeprefix(":").split()
        changes.append(TreeChange(name.decode("utf-8"), (old, new), (before, after)))
    return tree, changes


async def read_blobs(scratch: Path, blobs: Iterable[str]) -> dict[str, bytes]:
    """The contents of those `blobs` that are not zeros, by name."""
    wanted = list(dict.fromkeys(blob for blob in blobs if blob.strip("0")))
    names = "".join(f"{blob}\n" for blob in wanted).encode()
    output = await git(scratch, "cat-file", "--batch", input=names)
    return dict(zip(wanted, parse_objects(output), strict=True))


async def diff_to_tree(scratch: Path, codebase: Codebase, tree: str) -> Patch:
    """The diff from `codebase` to `tree`, which is in the scratch repository."""
    diff = await git(
        scratch, "diff-tree", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff",
        "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/", codebase.commit, tree,
    )  # fmt: skip
    return Patch(diff=diff.decode("utf-8"))


def create_scratch_repository(scratch: Path, codebase: Codebase) -> None:
    """Make the empty folder `scratch` a bare repository that borrows the objects of `codebase`."""
    sha256 = len(codebase.commit) == 64
    config = f"[core]\n\tbare = true\n\trepositoryformatversion = {int(sha256)}\n"
    if sha256:
        config += "[extensions]\n\tobjectFormat = sha256\n"
    for place in ("refs", "objects/info", "info"):
        (scratch / place).mkdir(parents=True)
    objects = codebase.git_dir.absolute() / "objects"
    (scratch / "HEAD").write_text("ref: refs/heads/none\n")
    (scratch / "config").write_text(config)
    (scratch / "objects/info/alternates").write_text(f"{objects}\n")
    mark_binary(scratch, ())


def mark_binary(scratch: Path, binary: Sequence[str]) -> None:
    """Show the paths `binary` as binary parts, and all others as text."""
    # These take precedence over any .gitattributes: no attribute of the repository hides a change.
    lines = ["* !diff !text !eol !filter\n"]
    lines += [f"{_pattern(path)} -diff\n" for path in binary]
    (scratch / "info/attributes").write_text("".join(lines), encoding="utf-8")


def stream_commit(
    codebase: Codebase,
    changes: Mapping[str, bytes | None],
    ref: str,
    modes: Mapping[str, str] = MappingProxyType({}),
    *,
    seconds: int = 0,
) -> bytes:
    """The commit on `codebase` that makes `changes`, as `ref`, in the format of `git fast-import`;
    `modes` as for `create_patch`; `seconds` since 1970: its date."""
    known = {**modes, **{path: file.mode for path, file in codebase.files.items()}}
    parent = codebase.commit
    lines = [f"commit {ref}\ncommitter nobody <> {seconds} +0000\ndata 0\nfrom {parent}\n".encode()]
    # Deletions first: a file may become a folder.
    for path, data in sorted(changes.items(), key=lambda change: change[1] is not None):
        if data is None:
            lines.append(f"D {_quote(path)}\n".encode())
        else:
            mode = known.get(path, "100644")
            lines.append(f"M {mode} inline {_quote(path)}\ndata {len(data)}\n".encode())
            lines += [data, b"\n"]
    return b"".join(lines)


def is_utf8(data: bytes | None) -> bool:
    """Whether a file with this content (None: no file) can be text in a diff."""
    try:
        (data or b"").decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _pattern(path: str) -> str:
    """An attribute pattern for exactly this path."""
    return _quote("/" + re.sub(r"([\\*?\[\]])", r"\\\1", path))


def _quote(path: str) -> str:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
