"""What git answers once for all is remembered; what can change is not."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from capuchin_demo.hub.git_repository import GitRepo, Signature, run_git
from capuchin_demo.hub.github_errors import GitCommandFailed
from tests.support.github.git_repository import FastRepo

AUTHOR = Signature("Alice", "alice@example.org", datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture(params=[GitRepo, FastRepo])
def repo(tmp_path: Path, request: pytest.FixtureRequest) -> GitRepo:
    kind: type[GitRepo] = request.param
    return kind.create(tmp_path / "shop.git", "main")


def write_commit(repo: GitRepo, text: bytes) -> str:
    tree = repo.write_paths(None, {"shop.py": ("100644", repo.write_blob(text))})
    return repo.write_commit(tree, [], text.decode(), AUTHOR, AUTHOR)


def test_an_object_that_was_missing_is_found_once_it_is_stored(repo: GitRepo) -> None:
    text = b"total = 1\n"
    blob = run_git(repo.path, "hash-object", "--stdin", stdin=text).decode().strip()
    assert repo.object_kind(blob) is None
    with pytest.raises(GitCommandFailed):
        repo.read_object("blob", blob)
    assert repo.write_blob(text) == blob
    assert repo.object_kind(blob) == "blob"
    assert [repo.read_object("blob", blob) for _ in range(2)] == [text, text]


def test_a_branch_that_moves_or_goes_is_read_anew(repo: GitRepo) -> None:
    first, second = write_commit(repo, b"one"), write_commit(repo, b"two")
    repo.set_ref("refs/heads/main", first)
    assert (repo.resolve("main"), repo.read_file("main", "shop.py")) == (first, b"one")
    repo.set_ref("refs/heads/main", second)
    assert (repo.resolve("main"), repo.read_file("main", "shop.py")) == (second, b"two")
    repo.delete_ref("refs/heads/main")
    assert repo.resolve("main") is None


def test_refs_are_listed_as_by_git(repo: GitRepo) -> None:
    assert repo.list_refs("") == {}
    commit = write_commit(repo, b"one")
    for name in ("heads/main", "heads/main-2", "heads/fix/total", "tags/v1", "hub/pull/1"):
        repo.set_ref(f"refs/{name}", commit)
    every = run_git(repo.path, "for-each-ref", "--format=%(refname)").decode().split()
    (repo.path / "refs/heads/new.lock").touch()  # as while git sets a ref
    assert list(repo.list_refs("")) == every
    assert repo.list_refs("refs/heads/fix/") == {"total": commit}
    assert set(repo.list_refs("refs/heads/").values()) == {commit}
    run_git(repo.path, "symbolic-ref", "refs/heads/also", "refs/heads/main")
    assert repo.list_refs("refs/heads/")["also"] == commit
    run_git(repo.path, "pack-refs", "--all")
    assert [*repo.list_refs("")] == sorted([*every, "refs/heads/also"])


def test_refs_that_git_packs_meanwhile_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = FastRepo.create(tmp_path / "shop.git", "main")
    commit = write_commit(repo, b"one")
    repo.set_ref("refs/heads/main", commit)
    real = Path.read_text

    def read_text(path: Path, encoding: str) -> str:
        run_git(repo.path, "pack-refs", "--all")
        return real(path, encoding)

    monkeypatch.setattr(Path, "read_text", read_text)
    assert repo.resolve("main") == commit
    (repo.path / "packed-refs").unlink()
    repo.set_ref("refs/heads/main", commit)
    assert repo.list_refs() == {"heads/main": commit}


def test_a_file_is_stored_as_by_git(repo: GitRepo) -> None:
    for content in (b"", b"total = 1\n", bytes(range(256)) * 500):
        asked = run_git(repo.path, "hash-object", "--stdin", stdin=content).decode().strip()
        assert [repo.write_blob(content) for _ in range(2)] == [asked, asked]
        assert run_git(repo.path, "cat-file", "blob", asked) == content
    run_git(repo.path, "fsck", "--strict")


def test_refs_are_found_where_git_keeps_them(repo: GitRepo) -> None:
    commit = write_commit(repo, b"one")
    repo.set_ref("refs/heads/fix/total", commit)
    run_git(repo.path, "symbolic-ref", "refs/heads/also", "refs/heads/fix/total")
    tag = f"object {commit}\ntype commit\ntag v1\ntagger {AUTHOR.to_line()}\n\nFirst\n"
    annotated = run_git(repo.path, "mktag", stdin=tag.encode()).decode().strip()
    repo.set_ref("refs/tags/v1", annotated)
    names = ("fix/total", "also", "v1", "refs/tags/v1", commit, commit[:8])
    assert {name: repo.resolve(name) for name in names} == dict.fromkeys(names, commit)
    run_git(repo.path, "pack-refs", "--all")
    assert {name: repo.resolve(name) for name in names} == dict.fromkeys(names, commit)
    for name in ("fix", "none", "fix/total/more", "n" * 5000, "é", "../config", commit[:6]):
        assert repo.resolve(name) is None


@pytest.mark.parametrize("packed", [False, True])
def test_objects_are_read_as_by_git(repo: GitRepo, packed: bool) -> None:
    commits = [write_commit(repo, text) for text in (b"one", b"two\n\nthree", "\xe4\n".encode())]
    tree = repo.read_commit(commits[0]).tree
    large = repo.write_blob(bytes(2_000_000))
    empty = repo.write_blob(b"")
    repo.set_ref("refs/heads/main", commits[0])
    if packed:
        run_git(repo.path, "repack", "-q", "-a", "-d")
        assert not (repo.path / "objects" / commits[0][:2] / commits[0][2:]).exists()
    for sha in (*commits, tree, large, empty):
        kind = run_git(repo.path, "cat-file", "-t", sha).decode().strip()
        assert repo.object_kind(sha) == kind
        assert repo.read_object(kind, sha) == run_git(repo.path, "cat-file", kind, sha)
    assert [commit.message for commit in repo.read_commits(commits)] == [
        "one", "two\n\nthree", "\xe4\n"
    ]  # fmt: skip
    with pytest.raises(GitCommandFailed):
        repo.read_object("commit", tree)
    with pytest.raises(GitCommandFailed):
        repo.read_commit("0" * 40)


def test_an_object_that_is_damaged_is_left_to_git(repo: GitRepo) -> None:
    blob = repo.write_blob(b"one\n" * 100)
    place = repo.path / "objects" / blob[:2] / blob[2:]
    place.write_bytes(place.read_bytes()[:10])
    with pytest.raises(GitCommandFailed):
        repo.read_object("blob", blob)


def test_a_commit_is_stored_as_by_git(repo: GitRepo) -> None:
    commit = write_commit(repo, b"one\n")
    text = run_git(repo.path, "cat-file", "commit", commit)
    stored = run_git(repo.path, "hash-object", "-t", "commit", "--stdin", stdin=text)
    assert stored.decode().strip() == commit
    run_git(repo.path, "fsck", "--strict", commit)
