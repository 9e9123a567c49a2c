"""Git on the host: what a repository or a machine brings along runs nothing there."""

from pathlib import Path

import pytest

from pipeline.codebase.git import git

HOOKS = ("reference-transaction", "post-index-change", "post-rewrite", "pre-push", "fsmonitor")


async def test_hooks_filters_and_configuration_run_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = tmp_path / "ran"
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    evil.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    settings = f"[core]\nfsmonitor = {evil}\npager = {evil}\neditor = {evil}\n"
    settings += f'[diff]\nexternal = {evil}\n[filter "x"]\nclean = {evil}\nsmudge = {evil}\n'
    (home / ".gitconfig").write_text(settings + f"[init]\ntemplateDir = {home}/template\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
    for name in ("GIT_EXTERNAL_DIFF", "GIT_EDITOR", "GIT_PAGER", "GIT_SSH", "GIT_ASKPASS"):
        monkeypatch.setenv(name, str(evil))

    repository = tmp_path / "r.git"
    await git(None, "init", "-q", "--bare", str(repository))
    for name in HOOKS:
        (repository / "hooks").mkdir(exist_ok=True)
        (repository / "hooks" / name).write_text(evil.read_text())
        (repository / "hooks" / name).chmod(0o755)
    person = {
        f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    attributes = await git(repository, "hash-object", "-w", "--stdin", input=b"* filter=x diff=x\n")
    blob = await git(repository, "hash-object", "-w", "--stdin", input=b"x\n")
    listing = b"".join(
        b"100644 blob %s\t%s\0" % (digest.strip(), name)
        for digest, name in ((attributes, b".gitattributes"), (blob, b"a.py"))
    )
    tree = (await git(repository, "mktree", "-z", input=listing)).decode().strip()
    made = await git(repository, "commit-tree", tree, "-m", "one", env=person)
    commit = made.decode().strip()
    await git(repository, "update-ref", "refs/heads/main", commit)
    work = {"GIT_INDEX_FILE": str(tmp_path / "index"), "GIT_WORK_TREE": str(tmp_path / "work")}
    (tmp_path / "work").mkdir()
    await git(repository, "read-tree", commit, env=work)
    await git(repository, "checkout-index", "-a", env=work, cwd=tmp_path / "work")
    (tmp_path / "work/a.py").write_text("y\n")
    assert b"+y" in await git(repository, "diff", env=work, cwd=tmp_path / "work")
    await git(repository, "add", "-A", env=work, cwd=tmp_path / "work")
    other = str(tmp_path / "other.git")
    await git(None, "init", "-q", "--bare", other)
    await git(
        repository, "push", "-q", other, f"{commit}:refs/heads/main",
        config=("protocol.file.allow=always",),
    )  # fmt: skip
    assert not ran.exists()
