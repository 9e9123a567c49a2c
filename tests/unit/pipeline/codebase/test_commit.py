import asyncio
import os
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

from pipeline.codebase.commit import MOST_TEXT, RECENT_BYTES, Codebase, read_log
from pipeline.codebase.git import CodebaseTooLarge, GitFailed, git, read_git_entries
from pipeline.codebase.recent_bytes import RecentBytes
from pipeline.edits.patches import create_patch
from pipeline.languages.python.packages import read_manifests
from pipeline.languages.registry import detect_conventions
from pipeline.regression.command import find_commands
from sandbox.tree import Archive
from tests.support.data.bombs import commit_bomb
from tests.support.data.repositories import make_codebase, make_repository
from tests.support.proc import read_processes


def members(tar: Archive) -> dict[str, tarfile.TarInfo]:
    with tar.open() as data, tarfile.open(fileobj=data) as archive:
        return {member.name: member for member in archive}


async def test_a_commit_is_read_with_modes_sizes_and_contents(tmp_path: Path) -> None:
    commit = await make_repository(
        tmp_path / "r.git",
        {"a.py": "é\n", "bin/run": "#!/bin/sh\n", "b": b"\0\xff", "same.py": "é\n"},
        links={"link": "a.py"},
        executable=("bin/run",),
        submodules={"sub": "2" * 40},
    )
    codebase = await Codebase.open(tmp_path / "r.git", "main")
    assert codebase.commit == commit
    assert sorted(codebase.files) == ["a.py", "b", "bin/run", "link", "same.py", "sub"]
    assert codebase.files["bin/run"].mode == "100755"
    assert codebase.files["a.py"].size == 3
    assert await codebase.read("b") == b"\0\xff"
    assert await codebase.read_text("a.py") == "é\n"
    assert await codebase.read_text("b") is None
    assert await codebase.read_text("link") is None
    assert await codebase.read_text("sub") is None
    assert await codebase.read_all(["a.py", "same.py", "b"]) == {
        "a.py": "é\n".encode(),
        "same.py": "é\n".encode(),
        "b": b"\0\xff",
    }
    with pytest.raises(KeyError):
        await codebase.read("nowhere")


async def test_a_tree_holds_files_links_and_executables_but_no_submodule(tmp_path: Path) -> None:
    commit = await make_repository(
        tmp_path / "r.git",
        {"a.py": "x\n", "run": "y\n", ".gitattributes": "a.py export-ignore\n", "d/é.txt": "z"},
        links={"link": "../../etc/passwd"},
        executable=("run",),
        submodules={"sub": "2" * 40},
    )
    tree = await (await Codebase.open(tmp_path / "r.git", commit)).build_tree()
    found = members(tree.tar)
    assert sorted(found) == [".gitattributes", "a.py", "d/é.txt", "link", "run"]
    assert found["link"].linkname == "../../etc/passwd"
    assert (found["run"].mode, found["a.py"].mode) == (0o755, 0o644)
    again = await (await Codebase.open(tmp_path / "r.git", commit)).build_tree()
    assert again == tree


async def test_names_that_cannot_be_handled_are_skipped_with_the_reason(tmp_path: Path) -> None:
    git_dir = tmp_path / "r.git"
    await make_repository(git_dir, {"a.py": "x\n", "new\nline": "x\n", "-dash": "x\n"})
    blob = (await git(git_dir, "rev-parse", "main:a.py")).strip()
    entries = b"100644 blob " + blob + b"\tok\0" + b"100644 blob " + blob + b"\t\xff\xfe\0"
    tree = (await git(git_dir, "mktree", "-z", input=entries)).decode().strip()
    person = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a", "GIT_COMMITTER_NAME": "a"}
    commit = await git(
        git_dir, "commit-tree", "-m", "x", tree, env={**person, "GIT_COMMITTER_EMAIL": "a"}
    )
    odd = await Codebase.open(git_dir, commit.decode().strip())
    assert list(odd.files) == ["ok"]
    assert [(s.path, s.why) for s in odd.skipped] == [("\\xff\\xfe", "its name is not UTF-8")]
    first = await Codebase.open(git_dir, "main")
    assert list(first.files) == ["-dash", "a.py"]
    assert first.skipped[0].why == "its name holds a control character"


async def test_a_hand_made_tree_cannot_lead_out_of_the_repository(tmp_path: Path) -> None:
    git_dir = tmp_path / "r.git"
    await make_repository(git_dir, {"a.py": "x\n"})
    blob = bytes.fromhex((await git(git_dir, "rev-parse", "main:a.py")).decode().strip())
    raw = b"".join(b"100644 " + name + b"\0" + blob for name in (b"..", b".GIT", b"ok"))
    tree = await git(
        git_dir, "hash-object", "-w", "--literally", "-t", "tree", "--stdin", input=raw
    )
    body = f"tree {tree.decode().strip()}\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\n\nx\n"
    commit = await git(git_dir, "hash-object", "-w", "-t", "commit", "--stdin", input=body.encode())
    codebase = await Codebase.open(git_dir, commit.decode().strip())
    assert list(codebase.files) == ["ok"]
    assert [skipped.path for skipped in codebase.skipped] == ["..", ".GIT"]


async def test_a_repository_without_a_commit_is_an_empty_codebase(tmp_path: Path) -> None:
    await git(None, "init", "-q", "--bare", str(tmp_path / "r.git"))
    codebase = await Codebase.open(tmp_path / "r.git", "HEAD")
    assert (codebase.commit, dict(codebase.files)) == ("", {})


async def test_a_commit_without_files_is_an_empty_codebase(tmp_path: Path) -> None:
    assert dict((await make_codebase(tmp_path / "r.git", {})).files) == {}


@pytest.mark.parametrize("commit", ["3" * 40, "nope", "--output=x", "main:a.py"])
async def test_an_unknown_commit_is_an_error_in_gits_words(tmp_path: Path, commit: str) -> None:
    await make_repository(tmp_path / "r.git", {"a.py": "x\n"})
    with pytest.raises(GitFailed) as failed:
        await Codebase.open(tmp_path / "r.git", commit)
    assert failed.value.words


async def test_git_sees_nothing_of_the_machines_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = Leaked\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("SECRET", "x")
    await make_repository(tmp_path / "r.git", {"a.py": "x\n"})
    listed = await git(tmp_path / "r.git", "config", "--list")
    assert b"Leaked" not in listed
    seen = await git(tmp_path / "r.git", "-c", "alias.env=!env", "env")
    assert b"SECRET" not in seen


async def test_no_hook_runs(tmp_path: Path) -> None:
    await make_repository(tmp_path / "r.git", {"a.py": "x\n"})
    hook = tmp_path / "r.git/hooks/reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    await git(tmp_path / "r.git", "update-ref", "refs/heads/x", "main")


async def test_git_gets_settings_and_descriptors(tmp_path: Path) -> None:
    await make_repository(tmp_path / "r.git", {"a.py": "x\n"})
    read, write = os.pipe()
    os.write(write, b"through the pipe")
    os.close(write)
    try:
        piped = await git(
            tmp_path / "r.git",
            "pipe",
            config=(f"alias.pipe=!cat /dev/fd/{read}",),
            pass_fds=(read,),
        )
    finally:
        os.close(read)
    assert piped == b"through the pipe"


async def test_a_status_that_is_expected_is_no_error(tmp_path: Path) -> None:
    await make_repository(tmp_path / "r.git", {"a.py": "x\n"})
    assert await git(tmp_path / "r.git", "config", "no.such", accept=(0, 1)) == b""


async def test_a_cancelled_call_leaves_no_process(tmp_path: Path) -> None:
    await git(None, "init", "-q", "--bare", str(tmp_path / "r.git"))
    mark = f"987654{os.getpid()}"
    call = asyncio.create_task(
        git(tmp_path / "r.git", "wait", config=(f"alias.wait=!sleep {mark}",))
    )
    deadline = time.monotonic() + 120
    while not _running(mark):
        assert time.monotonic() < deadline, "git never started its child"
        await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    while _running(mark):
        assert time.monotonic() < deadline, "the child outlived the call"
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("steps", range(8))
async def test_a_call_that_is_cancelled_while_git_starts_leaves_no_process(
    tmp_path: Path, steps: int
) -> None:
    await git(None, "init", "-q", "--bare", str(tmp_path / "r.git"))
    mark = f"98765{steps}{os.getpid()}"
    call = asyncio.create_task(
        git(tmp_path / "r.git", "wait", config=(f"alias.wait=!sleep {mark}",))
    )
    for _ in range(steps):
        await asyncio.sleep(0)
    time.sleep(0.05 * (steps > 1))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(120):
            await call
    deadline = time.monotonic() + 120
    while _running(mark):
        assert time.monotonic() < deadline, "the child outlived the call"
        await asyncio.sleep(0.01)


async def test_a_listing_that_is_closed_while_much_of_it_is_unread_ends(tmp_path: Path) -> None:
    await git(None, "init", "-q", "--bare", str(tmp_path))
    commit = commit_bomb(tmp_path, widths=[1000, 1000])
    listing = read_git_entries(tmp_path, "ls-tree", "-r", "-z", commit)
    await anext(listing)
    for _ in range(100):  # the loop reads on until its buffer is full
        await asyncio.sleep(0.01)
    async with asyncio.timeout(120):
        await listing.aclose()


def _running(mark: str) -> bool:
    wanted = [b"sleep", mark.encode()]
    return any(data.split(b"\0")[:2] == wanted for _, data in read_processes("cmdline"))


async def test_sha256_repositories_work_too(tmp_path: Path) -> None:
    git_dir = tmp_path / "r.git"
    made = subprocess.run(
        ["git", "init", "-q", "--bare", "--object-format=sha256", str(git_dir)], check=False
    )
    if made.returncode:
        pytest.skip("this git knows no SHA-256 repositories")
    await make_repository(git_dir, {"a.py": "x\n"})
    codebase = await Codebase.open(git_dir, "main")
    assert len(codebase.commit) == 64
    assert "+y" in (await create_patch(codebase, {"a.py": b"y\n"})).diff


@pytest.mark.parametrize(
    ("widths", "content", "sentence"),
    [
        ([1000, 1000, 10], b"x", "more than 20,000 files"),
        ([1000], b"\0" * 5_000_000, "more than 4 GiB"),
        ([1], b"\0" * 300_000_000, "larger than 256 MiB"),
    ],
)
async def test_a_commit_that_unpacks_without_end_is_refused_before_it_is_held(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    widths: list[int],
    content: bytes,
    sentence: str,
) -> None:
    monkeypatch.setattr("pipeline.codebase.commit.MOST_FILES", 20_000)
    await git(None, "init", "-q", "--bare", str(tmp_path))
    commit = commit_bomb(tmp_path, content=content, widths=widths)
    with pytest.raises(CodebaseTooLarge, match=sentence):
        await Codebase.open(tmp_path, commit)


async def test_a_commit_of_empty_folders_is_refused_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.codebase.commit.MOST_SECONDS", 0.5)
    await git(None, "init", "-q", "--bare", str(tmp_path))
    tree = (await git(tmp_path, "mktree", input=b"")).decode().strip()
    for _ in range(5):
        lines = "".join(f"040000 tree {tree}\tp{number}\n" for number in range(100))
        tree = (await git(tmp_path, "mktree", input=lines.encode())).decode().strip()
    person = {f"GIT_{w}_{x}": "x" for w in ("AUTHOR", "COMMITTER") for x in ("NAME", "EMAIL")}
    commit = await git(tmp_path, "commit-tree", tree, "-m", "x", env=person)
    with pytest.raises(CodebaseTooLarge, match="could not be listed"):
        await Codebase.open(tmp_path, commit.decode().strip())


async def test_ordinary_files_of_unusual_size_are_not_read_as_text(tmp_path: Path) -> None:
    """A few KB of git name gigabytes: one large blob under many ordinary names."""
    large = b"a = 1\n" * (MOST_TEXT // 6 + 1)
    names = ["tox.ini", "setup.py", "pyproject.toml", *(f"m{n}.py" for n in range(40))]
    codebase = await make_codebase(tmp_path, {**dict.fromkeys(names, large), "small.py": "b = 2\n"})
    assert await codebase.read_text("setup.py") is None
    assert await read_manifests(codebase) == {}
    assert not await find_commands(codebase, ())
    assert (await detect_conventions(codebase)).runner == "unittest"
    everything = {"small.py": "b = 2\n"}
    assert await codebase.read_texts([*names, "small.py"]) == everything
    texts = await codebase.read_texts(names, largest=2 * MOST_TEXT, most=3 * len(large))
    assert list(texts) == names[:3]


async def test_a_file_is_read_from_git_once(tmp_path: Path) -> None:
    big = "x" * (RECENT_BYTES // 16 + 1)
    files = {"a.py": "a\n", "b.py": "b\n", "big.py": big}
    codebase = await make_codebase(tmp_path / "r.git", files)
    assert await codebase.read("a.py") == b"a\n"
    assert list(await codebase.read_all(["big.py", "b.py"])) == ["big.py", "b.py"]
    shutil.rmtree(codebase.git_dir / "objects")
    assert await codebase.read_all(["b.py", "a.py"]) == {"b.py": b"b\n", "a.py": b"a\n"}
    with pytest.raises(GitFailed):  # too large to keep
        await codebase.read("big.py")


async def test_a_log_is_read_once(tmp_path: Path) -> None:
    codebase = await make_codebase(tmp_path / "repo.git", {"a.py": "x = 1\n", "b.py": ""})
    log = await read_log(codebase, "--format=%H", "--name-only", paths=["a.py"])
    assert log.split() == [codebase.commit.encode(), b"a.py"]
    (tmp_path / "repo.git").rename(tmp_path / "gone.git")
    assert await read_log(codebase, "--format=%H", "--name-only", paths=["a.py"]) == log
    with pytest.raises(GitFailed):
        await read_log(codebase, "--format=%H", "--name-only")


def test_what_was_asked_for_longest_ago_makes_room() -> None:
    recent = RecentBytes(160)
    for number in range(16):
        recent.add(str(number), bytes(10))
    assert recent.get("0") is not None
    recent.add("next", b"x")
    assert [name for name in ("0", "1", "2", "next") if recent.get(name) is None] == ["1"]


def test_a_value_that_would_push_out_most_others_is_not_kept() -> None:
    recent = RecentBytes(160)
    recent.add("small", bytes(10))
    recent.add("large", bytes(11))
    assert (recent.get("small"), recent.get("large")) == (bytes(10), None)
