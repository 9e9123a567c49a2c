"""Bare git repositories made from plain dictionaries, for tests."""

from collections.abc import Mapping
from pathlib import Path

from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import git

_PERSON = "A <a@example.org> 1700000000 +0000"
_KEEP_PACK = ("fastimport.unpackLimit=0",)
_FOLDERS = ("refs/heads", "refs/tags", "objects/info", "objects/pack", "info")
_HEADS = "refs/heads/main"


async def make_repository(
    git_dir: Path,
    files: Mapping[str, str | bytes],
    *,
    links: Mapping[str, str] | None = None,
    executable: tuple[str, ...] = (),
    submodules: Mapping[str, str] | None = None,
    loose: bool = False,
) -> str:
    """Make a bare repository with one commit on `main`, or give an existing one this commit.

    Returns the commit's name. With `loose`, each object is a file of its own.
    """
    # Most tests make a repository of their own: one process of git does it.
    if not (git_dir / "HEAD").exists():
        for folder in _FOLDERS:
            (git_dir / folder).mkdir(parents=True)
        (git_dir / "HEAD").write_text(f"ref: {_HEADS}\n")
        (git_dir / "config").write_text("[core]\n\tbare = true\n")
    stream = [f"commit {_HEADS}\nmark :1\ncommitter {_PERSON}\ndata 4\none\n\n".encode()]
    for path, content in {**files, **(links or {})}.items():
        data = content.encode() if isinstance(content, str) else content
        mode = "120000" if path in (links or {}) else "100644"
        mode = "100755" if path in executable else mode
        stream.append(f"M {mode} inline {_quote(path)}\ndata {len(data)}\n".encode())
        stream += [data, b"\n"]
    for path, commit in (submodules or {}).items():
        stream.append(f"M 160000 {commit} {_quote(path)}\n".encode())
    stream.append(b"get-mark :1\n")
    words, config = ("fast-import", "--quiet", "--force"), () if loose else _KEEP_PACK
    name = await git(git_dir, *words, input=b"".join(stream), config=config)
    return name.decode().strip()


async def add_commit(git_dir: Path, files: Mapping[str, str], subject: str) -> str:
    """One more commit on the `main` of `make_repository`, which changes `files`; its name."""
    head = f"commit {_HEADS}\nmark :1\ncommitter {_PERSON}\ndata {len(subject)}\n{subject}\n"
    stream = [f"{head}from {_HEADS}^0\n".encode()]
    for path, text in files.items():
        data = text.encode()
        stream.append(f"M 100644 inline {_quote(path)}\ndata {len(data)}\n".encode())
        stream += [data, b"\n"]
    stream.append(b"get-mark :1\n")
    return (await git(git_dir, "fast-import", "--quiet", input=b"".join(stream))).decode().strip()


def _quote(path: str) -> str:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


async def make_codebase(
    git_dir: Path, files: Mapping[str, str | bytes], *, loose: bool = False
) -> Codebase:
    return await Codebase.open(git_dir, await make_repository(git_dir, files, loose=loose))


async def applied(codebase: Codebase, diff: str, folder: Path) -> dict[str, bytes]:
    """The files after `git apply` of `diff` to a fresh checkout of `codebase`."""
    folder.mkdir()
    for path, file in codebase.files.items():
        if file.regular:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(await codebase.read(path))
    await git(None, "apply", "--whitespace=nowarn", "-", input=diff.encode(), cwd=folder)
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
