"""A bare repository with its refs, commits and files; the isolated git binary.

https://git-scm.com/docs/gitrepository-layout (`objects/[0-9a-f][0-9a-f]`)
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from capuchin_demo.hub.github_errors import GitCommandFailed


@dataclass(frozen=True)
class Signature:
    """An author or committer, with the time (UTC)."""

    name: str
    email: str
    at: datetime

    def to_line(self) -> str:
        """The line of a commit object, without characters that would end a field early."""
        name, email = (re.sub(r"[<>\n\0]", "", text).strip() for text in (self.name, self.email))
        return f"{name} <{email}> {int(self.at.timestamp())} +0000"


@dataclass(frozen=True)
class Commit:
    """A commit object."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    author: Signature
    committer: Signature
    message: str


@dataclass(frozen=True)
class Entry:
    """An entry of a tree. `size` is None unless it is a blob."""

    mode: str
    kind: str
    sha: str
    size: int | None
    path: str

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class ChangedFile:
    """A file that differs between two trees. `patch` has no header; empty for binary files."""

    path: str
    before: str | None
    status: str
    sha: str
    additions: int
    deletions: int
    patch: str


def parse_commit(sha: str, text: str) -> Commit:
    """Parse the output of `git cat-file commit`."""
    head, _, message = text.partition("\n\n")
    fields: dict[str, list[str]] = {}
    for line in head.split("\n"):
        key, _, value = line.partition(" ")
        fields.setdefault(key, []).append(value)
    return Commit(
        sha,
        fields["tree"][0],
        tuple(fields.get("parent", [])),
        parse_signature(fields["author"][0]),
        parse_signature(fields["committer"][0]),
        message,
    )


def parse_signature(line: str) -> Signature:
    """Parse `Name <email> seconds zone`."""
    who, seconds, _zone = line.rsplit(" ", 2)
    name, _, email = who.rpartition(" <")
    return Signature(name, email.rstrip(">"), datetime.fromtimestamp(int(seconds), UTC))


TIMEOUT_S = 60
"""Far above the time of any command on a repository of this hub."""


def git_binary() -> str:
    """The path of git.

    Raises:
        GitCommandFailed: it is not installed; the text says what to do.
    """
    found = shutil.which("git")
    if found is None:
        raise GitCommandFailed("git is not on PATH; install it (Debian: apt-get install git)")
    return found


def git_environment(**extra: str) -> dict[str, str]:
    """An environment without the caller's variables and configuration."""
    return {
        "PATH": os.defpath,
        "HOME": os.devnull,
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        **extra,
    }


def run_git(
    folder: Path,
    *arguments: str,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    allowed_codes: tuple[int, ...] = (),
) -> bytes:
    """Run git and return its output.

    Raises:
        GitCommandFailed: the exit code is neither 0 nor one of `allowed_codes`.
    """
    done = subprocess.run(
        [git_binary(), "-C", str(folder), *arguments],
        input=stdin,
        capture_output=True,
        env=git_environment(**(environment or {})),
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode not in (0, *allowed_codes):
        complaint = done.stderr.decode("utf-8", "replace").strip()
        raise GitCommandFailed(f"git {arguments[0]} ended with {done.returncode}: {complaint}")
    return done.stdout


FULL_SHA = re.compile(r"[0-9a-f]{40}")


def write_object(repository: Path, kind: str, content: bytes) -> str:
    """Store an object, as it is, and return its id."""
    data = b"%s %d\0" % (kind.encode(), len(content)) + content
    sha = hashlib.sha1(data, usedforsecurity=False).hexdigest()
    place = repository / "objects" / sha[:2] / sha[2:]
    if not place.exists():
        place.parent.mkdir(exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=place.parent, delete=False) as file:
            file.write(zlib.compress(data, level=1))
        Path(file.name).replace(place)
    return sha


class GitRepo:
    """Reads and writes objects and refs, whose names may be untrusted.

    A `rev` is a branch, a tag, a full ref name, or a commit id (at least 7 digits), but never a
    revision expression, so git never interprets untrusted text.

    Methods that raise GitCommandFailed do so if git rejects an object, a name or a path.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, default_branch: str) -> "GitRepo":
        """Create an empty bare repository.

        Raises:
            GitCommandFailed: the branch name is not valid.
        """
        path.mkdir(parents=True)
        run_git(path, "check-ref-format", "--branch", default_branch)
        run_git(path, "init", "--quiet", "--bare", f"--initial-branch={default_branch}", ".")
        with (path / "config").open("a", encoding="utf-8") as config:
            # Options that GitHub's servers have, too (partial clone, fetching any commit).
            for key, value in {
                "http.receivepack": "true",
                "uploadpack.allowFilter": "true",
                "uploadpack.allowAnySHA1InWant": "true",
                "receive.denyDeleteCurrent": "refuse",
                "transfer.hideRefs": "refs/hub",
                "core.logAllRefUpdates": "false",
                "gc.auto": "0",
            }.items():
                section, name = key.split(".")
                config.write(f"[{section}]\n\t{name} = {value}\n")
        return cls(path)

    def ask(self, *arguments: str, allowed_codes: tuple[int, ...] = ()) -> bytes:
        """Run git once for an answer that depends on full object ids alone.

        Raises:
            GitCommandFailed: see `run_git`.
        """
        return run_git(self.path, *arguments, allowed_codes=allowed_codes)

    # Refs

    def list_refs(self, prefix: str = "refs/") -> dict[str, str]:
        """The object ids of the refs under `prefix` (which ends with `/`), by name without it."""
        wanted = [prefix] if prefix else []
        listing = run_git(self.path, "for-each-ref", "--format=%(objectname) %(refname)", *wanted)
        pairs = (line.split(" ", 1) for line in listing.decode().splitlines())
        return {name.removeprefix(prefix): sha for sha, name in pairs}

    def resolve(self, rev: str) -> str | None:
        """The commit that `rev` names, or None."""
        asked = "".join(f"{name}^{{commit}}\n" for name in list_meanings(rev))
        answers = run_git(self.path, "cat-file", "--batch-check", stdin=asked.encode())
        found = (line.split() for line in answers.decode().splitlines())
        return next((parts[0] for parts in found if parts[1:2] == ["commit"]), None)

    def set_ref(self, ref: str, sha: str, before: str | None = None) -> None:
        """Set a ref, whose value must be `before` if that is given.

        Raises:
            GitCommandFailed: the ref has another value, or the name is not valid.
        """
        run_git(self.path, "update-ref", ref, sha, *([] if before is None else [before]))

    def delete_ref(self, ref: str) -> None:
        """Delete a ref."""
        run_git(self.path, "update-ref", "-d", ref)

    def is_valid_ref(self, ref: str) -> bool:
        """Whether git accepts the name."""
        try:
            run_git(self.path, "check-ref-format", ref)
        except GitCommandFailed:
            return False
        return True

    # Reading

    def object_kind(self, sha: str) -> str | None:
        """The kind of an object (`commit`, `tree`, `blob`, `tag`); None if it does not exist."""
        if not FULL_SHA.fullmatch(sha):
            return None
        try:
            return self.ask("cat-file", "-t", sha).decode().strip()
        except GitCommandFailed:
            return None

    def read_object(self, kind: str, sha: str) -> bytes:
        """An object's content.

        Raises:
            GitCommandFailed: `sha` is not such an object.
        """
        return self.ask("cat-file", kind, sha)

    def read_commit(self, sha: str) -> Commit:
        """A commit by its id.

        Raises:
            GitCommandFailed: it is not a commit.
        """
        return parse_commit(sha, self.read_object("commit", sha).decode("utf-8", "replace"))

    def read_commits(self, shas: Iterable[str]) -> list[Commit]:
        """Several commits, in order."""
        return [self.read_commit(sha) for sha in shas]

    def log(self, rev: str, *, without: str = "", path: str = "", limit: int = 250) -> list[Commit]:
        """Commits reachable from `rev` but not from `without` that change `path`, newest first."""
        sha, excluded = self.resolve(rev), self.resolve(without) if without else None
        if sha is None:
            return []
        chosen = [sha, *([f"^{excluded}"] if excluded else [])]
        listing = self.ask(
            "--literal-pathspecs", "rev-list", f"--max-count={limit}", *chosen, "--",
            *([path] if path else []),
        )  # fmt: skip
        return self.read_commits(listing.decode().split())

    def list_entries(self, tree: str, *, recursive: bool = False) -> list[Entry]:
        """The entries of a tree, with relative paths.

        Raises:
            GitCommandFailed: it is not a tree.
        """
        flags = ["-r", "-t"] if recursive else []
        listing = self.ask("ls-tree", "-z", "--long", *flags, tree)
        found: list[Entry] = []
        for line in listing.decode("utf-8", "replace").split("\0")[:-1]:
            facts, _, path = line.partition("\t")
            mode, kind, sha, size = facts.split()
            found.append(Entry(mode, kind, sha, None if size == "-" else int(size), path))
        return found

    def find_entry(self, rev: str, path: str) -> Entry | None:
        """The file, folder or link at `path` in a commit, or None."""
        sha = self.resolve(rev)
        if sha is None:
            return None
        tree = self.read_commit(sha).tree
        found = Entry("040000", "tree", tree, None, "")
        for number, name in enumerate(parts := path.strip("/").split("/") if path else []):
            lines = self.list_entries(found.sha) if found.kind == "tree" else []
            line = next((line for line in lines if line.path == name), None)
            if line is None:
                return None
            whole = "/".join(parts[: number + 1])
            found = Entry(line.mode, line.kind, line.sha, line.size, whole)
        return found

    def read_file(self, rev: str, path: str) -> bytes | None:
        """A file's bytes; None if it is missing."""
        entry = self.find_entry(rev, path)
        return self.read_object("blob", entry.sha) if entry and entry.kind == "blob" else None

    # Writing

    def write_blob(self, content: bytes) -> str:
        """Store a file and return its id."""
        return write_object(self.path, "blob", content)

    def write_paths(self, base: str | None, files: Mapping[str, tuple[str, str] | None]) -> str:
        """Store the tree `base` with `files` (path to mode and blob id; None deletes).

        Raises:
            GitCommandFailed: git rejects a path (`..`, `.git`, absolute, empty).
        """
        for path in files:
            if "\0" in path or {"", ".", "..", ".git"} & set(path.lower().split("/")):
                raise GitCommandFailed(f"{path!r} is not a path that git would store")
        index = {"GIT_INDEX_FILE": str(self.path / f"hub-index-{id(files)}")}
        lines = "".join(
            f"0 {'0' * 40}\t{path}\0" if found is None else f"{found[0]} {found[1]}\t{path}\0"
            for path, found in files.items()
        )
        try:
            if base:
                run_git(self.path, "read-tree", base, environment=index)
            run_git(
                self.path, "update-index", "-z", "--index-info",
                stdin=lines.encode(), environment=index,
            )  # fmt: skip
            return run_git(self.path, "write-tree", environment=index).decode().strip()
        finally:
            Path(index["GIT_INDEX_FILE"]).unlink(missing_ok=True)

    def write_commit(
        self, tree: str, parents: Iterable[str], message: str, author: Signature, by: Signature
    ) -> str:
        """Store a commit, with the same bytes as on GitHub, and return its id."""
        lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
        lines += [f"author {author.to_line()}", f"committer {by.to_line()}"]
        text = "\n".join(lines) + "\n\n" + message
        return write_object(self.path, "commit", text.encode())


def list_meanings(rev: str) -> list[str]:
    """The names of git that `rev` may be, likeliest first, without what git would interpret."""
    if not rev or "\0" in rev or "\n" in rev:
        return []
    names = (rev,) if rev.startswith("refs/") else (f"refs/heads/{rev}", f"refs/tags/{rev}")
    tried = [*names, *([rev] if re.fullmatch(r"[0-9a-f]{7,40}", rev) else [])]
    return [name for name in tried if not re.search(r"[\s~^:?*\[\\]|\.\.|@\{|^-", name)]
