"""Bare git repositories made from plain dictionaries, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import git

_PERSON = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_COMMITTER_DATE": "1700000000 +0000",
}


async def make_repository(
    git_dir: Path,
    files: Mapping[str, str | bytes],
    *,
    links: Mapping[str, str] | None = None,
    executable: tuple[str, ...] = (),
    submodules: Mapping[str, str] | None = None,
) -> str:
    """A bare repository with one commit on `main`; the commit's name."""
    await git(None, "init", "-q", "--bare", "-b", "main", str(git_dir))
    entries: list[bytes] = []
    for path, content in {**files, **(links or {})}.items():
        data = content.encode() if isinstance(content, str) else content
        blob = await git(git_dir, "hash-object", "-w", "--stdin", "--no-filters", input=data)
        mode = "120000" if path in (links or {}) else "100644"
        mode = "100755" if path in executable else mode
        entries.append(f"{mode} {blob.decode().strip()}\t{path}\0".encode())
    for path, commit in (submodules or {}).items():
        entries.append(f"160000 {commit}\t{path}\0".encode())
    await git(git_dir, "update-index", "-z", "--index-info", input=b"".join(entries))
    tree = (await git(git_dir, "write-tree")).decode().strip()
    commit = (await git(git_dir, "commit-tree", "-m", "one", tree, env=_PERSON)).decode().strip()
    await git(git_dir, "update-ref", "refs/heads/main", commit)
    return commit


async def make_codebase(git_dir: Path, files: Mapping[str, str | bytes]) -> Codebase:
    return await Codebase.open(git_dir, await make_repository(git_dir, files))


async def applied(codebase: Codebase, diff: str, folder: Path) -> dict[str, bytes]:
    """The files after `git apply` of `diff` to a fresh checkout of `codebase`."""
    folder.mkdir()
    for path, file in codebase.files.items():
        if file.regular:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(await codebase.read(path))
    await git(None, "init", "-q", str(folder))
    await git(None, "apply", "--whitespace=nowarn", "-", input=diff.encode(), cwd=folder)
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] != ".git"
    }
