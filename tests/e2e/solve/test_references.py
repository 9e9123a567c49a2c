"""What a commit holds by reference: submodules, and files of Git LFS."""

import hashlib
import tarfile
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from bot.data.job import Job
from bot.runs.references import find_on_github
from capuchin_demo.hub.git_repository import Signature
from capuchin_demo.hub.state import Repo, now
from tests.e2e.harness import BotHarness
from tests.e2e.people import MAINTAINER

PICTURE = b"\x89PNG" + bytes(range(256)) * 1000


@dataclass
class Linked:
    repo: Repo
    library: Repo


def link_library(bot: BotHarness, *, private: bool) -> Linked:
    """A repository with a submodule, one from elsewhere, and two files of Git LFS, one missing."""
    oid = hashlib.sha256(PICTURE).hexdigest()
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {}\n"
    pictures = {
        ".gitattributes": "*.png filter=lfs diff=lfs merge=lfs -text\n",
        "logo.png": pointer.format(oid, len(PICTURE)),
        "lost.png": pointer.format("0" * 64, 12).replace("\n", "\r\n"),
    }
    inner = bot.add_repo("acme/inner", {"inner.c": "int inner;\n", **pictures})
    library = bot.add_repo("acme/library", {"library.c": "int library;\n"}, private=private)
    add_links(library, {"inner": ("../inner.git", inner)})
    source = "def total(a, b):\n    return a - b\n"
    repo = bot.add_repo("acme/shop", {"shop.py": source, **pictures})
    repo.large_files[oid] = inner.large_files[oid] = PICTURE
    host = urlsplit(bot.hub.url).hostname
    links = {
        "third_party/library": (f"git@{host}:acme/library.git", library),
        "third_party/other": ("https://gitlab.example/other/other.git", inner),
    }
    add_links(repo, links)
    return Linked(repo, library)


def add_links(repo: Repo, links: dict[str, tuple[str, Repo]]) -> None:
    git, head = repo.git, head_of(repo)
    modules = "".join(
        f'[submodule "{path}"]\n\tpath = {path}\n\turl = {url}\n'
        for path, (url, _) in links.items()
    )
    entries = {path: ("160000", head_of(other)) for path, (_, other) in links.items()}
    entries[".gitmodules"] = ("100644", git.write_blob(modules.encode()))
    tree = git.write_paths(git.read_commit(head).tree, entries)
    by = Signature("ann", "ann@example.com", now())
    commit = git.write_commit(tree, [head], "Link\n", by, by)
    git.set_ref("refs/heads/main", commit)


def head_of(repo: Repo) -> str:
    head = repo.git.resolve("main")
    assert head is not None
    return head


async def sandbox_files(job: Job) -> dict[str, bytes]:
    tree = await job.codebase.build_tree()
    with tree.tar.open() as file, tarfile.open(fileobj=file) as tar:
        return {one.name: (tar.extractfile(one) or file).read() for one in tar if one.isfile()}


async def test_submodules_and_large_files_are_in_the_sandbox_and_the_others_in_limits(
    bot: BotHarness,
) -> None:
    linked = link_library(bot, private=True)
    await bot.solve(await bot.open_issue(linked.repo))
    files = await sandbox_files(bot.runner.jobs[0])
    assert files["third_party/library/library.c"] == b"int library;\n"
    assert files["third_party/library/inner/inner.c"] == b"int inner;\n"
    assert files["logo.png"] == files["third_party/library/inner/logo.png"] == PICTURE
    (pull,) = linked.repo.pulls
    limits = (pull.body or "").partition("## Limits")[2]
    absent = ("third_party/other", "lost.png", "third_party/library/inner/lost.png")
    assert [name for name in absent if f"`{name}`" not in limits] == []
    assert ["`third_party/library`" in limits, "logo.png" in limits] == [False, False]


async def test_a_private_submodule_is_shown_to_nobody_who_may_not_read_it(bot: BotHarness) -> None:
    linked = link_library(bot, private=True)
    linked.library.roles.pop(MAINTAINER)
    await bot.solve(await bot.open_issue(linked.repo))
    files = await sandbox_files(bot.runner.jobs[0])
    assert [name for name in files if name.startswith("third_party")] == []
    (pull,) = linked.repo.pulls
    assert "`third_party/library`" in (pull.body or "").partition("## Limits")[2]


@pytest.mark.parametrize(
    ("address", "named"),
    [
        ("https://ann@github.com/acme/a.git", "acme/a"),
        ("https://ann:secret@github.com/acme/a", "acme/a"),
        ("org-12@github.com:acme/a.git", "acme/a"),
        ("ssh://git@ssh.github.com:443/acme/a.git", "acme/a"),
        ("https://www.github.com/acme/a/", "acme/a"),
        ("https://github.com@evil.example/acme/a", None),
        ("https://evil.example/github.com/acme/a", None),
        ("git@github.com.evil.example:acme/a", None),
    ],
)
def test_an_address_names_a_repository_on_the_same_github(address: str, named: str | None) -> None:
    assert find_on_github(address, "acme/shop", "https://github.com") == named
