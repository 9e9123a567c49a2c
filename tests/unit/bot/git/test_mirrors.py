"""The mirror: cloned once, updated, repaired when damaged, never outside its folder."""

import os
import time
from pathlib import Path

import pytest

from bot.errors import RepositoryEmpty, RepositoryGone
from bot.git.mirrors import Mirrors, Remote
from pipeline.codebase.git import git
from pipeline.concurrency import gather_all
from pipeline.data.types import CommitSha
from tests.support.data import local_git
from tests.support.data.publishing import SHOP

NAME = "acme/shop"


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    local_git.repository(tmp_path / "origin", {"shop.py": SHOP})
    return tmp_path / "origin"


@pytest.fixture
def remote(origin: Path) -> Remote:
    return Remote(f"file://{origin}")


@pytest.fixture
def mirrors(tmp_path: Path) -> Mirrors:
    return Mirrors(tmp_path / "data")


async def test_the_first_checkout_has_the_branch_head(
    mirrors: Mirrors, remote: Remote, origin: Path
) -> None:
    checkout = await mirrors.checkout(remote, NAME, "main")
    assert checkout.base == local_git.git(origin, "rev-parse", "HEAD")
    assert await git(checkout.git_dir, "show", f"{checkout.base}:shop.py") == SHOP


async def test_a_later_checkout_fetches_what_is_new(
    mirrors: Mirrors, remote: Remote, origin: Path
) -> None:
    await mirrors.checkout(remote, NAME, "main")
    newer = local_git.committed(origin, {"shop.py": b"x = 1\n"})
    checkout = await mirrors.checkout(remote, NAME, "main")
    assert checkout.base == newer
    assert await git(checkout.git_dir, "show", f"{newer}:shop.py") == b"x = 1\n"


async def test_a_resumed_run_keeps_its_commit_even_after_a_force_push(
    mirrors: Mirrors, remote: Remote, origin: Path, tmp_path: Path
) -> None:
    base = (await mirrors.checkout(remote, NAME, "main")).base
    local_git.git(origin, "commit", "--quiet", "--amend", "-m", "other")
    again = await mirrors.checkout(remote, NAME, "main", base=base)
    elsewhere = await Mirrors(tmp_path / "other").checkout(remote, NAME, "main", base=base)
    assert again.base == elsewhere.base == base
    assert await git(elsewhere.git_dir, "show", f"{base}:shop.py") == SHOP


@pytest.mark.parametrize("name", ["capuchin-reading.sqlite", "packed-refs.lock", "gc.pid"])
async def test_commits_of_a_run_stay_beside_what_others_do_in_the_mirror(
    mirrors: Mirrors, remote: Remote, name: str
) -> None:
    checkout = await mirrors.checkout(remote, NAME, "main")
    made = await git(
        checkout.git_dir, "-c", "user.name=x", "-c", "user.email=x@example.org",
        "commit-tree", "-m", "An edit", f"{checkout.base}^{{tree}}",
    )  # fmt: skip
    (checkout.git_dir / name).touch()
    again = await mirrors.checkout(remote, NAME, "main", base=checkout.base)
    assert await git(again.git_dir, "cat-file", "-t", made.decode().strip()) == b"commit\n"


async def test_a_commit_that_is_nowhere_is_gone(mirrors: Mirrors, remote: Remote) -> None:
    with pytest.raises(RepositoryGone):
        await mirrors.checkout(remote, NAME, "main", base=CommitSha("1" * 40))


async def test_a_base_that_is_no_commit_name_is_refused(mirrors: Mirrors, remote: Remote) -> None:
    with pytest.raises(RepositoryGone):
        await mirrors.checkout(remote, NAME, "main", base=CommitSha("--upload-pack=x"))


@pytest.mark.parametrize("what", ["HEAD", "objects", "config"])
async def test_a_damaged_mirror_is_made_again(
    mirrors: Mirrors, remote: Remote, origin: Path, what: str
) -> None:
    checkout = await mirrors.checkout(remote, NAME, "main")
    damage(checkout.git_dir / what)
    again = await mirrors.checkout(remote, NAME, "main")
    assert await git(again.git_dir, "show", f"{again.base}:shop.py") == SHOP
    assert [p.name for p in again.git_dir.parent.iterdir() if p.name[0] == "."] == []


def damage(place: Path) -> None:
    if place.is_file():
        place.write_text("rubbish")
        return
    for file in place.rglob("*"):
        if file.is_file():
            file.chmod(0o600)
            file.write_bytes(b"rubbish")


async def test_an_empty_repository_is_reported_from_a_missing_one(
    mirrors: Mirrors, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    local_git.git(tmp_path / "empty", "init", "--quiet", "--bare")
    with pytest.raises(RepositoryEmpty):
        await mirrors.checkout(Remote(f"file://{tmp_path}/empty"), NAME, "main")
    with pytest.raises(RepositoryGone):
        await mirrors.checkout(Remote(f"file://{tmp_path}/nowhere"), NAME, "main")


async def test_side_by_side_checkouts_share_one_mirror(mirrors: Mirrors, remote: Remote) -> None:
    checkouts = await gather_all(mirrors.checkout(remote, NAME, "main") for _ in range(4))
    assert len({checkout.base for checkout in checkouts}) == 1


@pytest.mark.parametrize(
    "name", ["../x", "acme/..", "acme/.", "a b/c", "acme", "/etc", "a/b/c", "-x/y"]
)
def test_a_hostile_name_never_becomes_a_path(mirrors: Mirrors, remote: Remote, name: str) -> None:
    with pytest.raises(RepositoryGone):
        mirrors.path_of(remote, name)


def test_mirrors_lie_by_host_owner_and_name(tmp_path: Path) -> None:
    place = Mirrors(tmp_path).path_of(
        Remote("https://git.acme.test:8443/Acme/Shop.git"), "Acme/Shop"
    )
    assert place == tmp_path / "mirrors" / "git.acme.test_8443" / "acme" / "shop.git"


async def test_tags_are_found_without_the_files_of_history(
    mirrors: Mirrors, remote: Remote, origin: Path
) -> None:
    local_git.git(origin, "config", "uploadpack.allowFilter", "true")
    local_git.git(origin, "tag", "v1.4")
    local_git.committed(origin, {"more.py": b"x = 1\n"})
    base = (await mirrors.checkout(remote, NAME, "main")).base
    assert (await mirrors.describe(remote, NAME, base)).startswith("v1.4-1-g")
    local_git.git(origin, "tag", "v2.0")
    assert (await mirrors.describe(remote, NAME, base)).startswith("v1.4-1-g"), "it is known"
    (history,) = origin.parent.glob("data/histories/**/*.git")
    nowhere = Remote(f"file://{origin}/nowhere")
    assert await mirrors.describe(nowhere, "acme/other", base) == ""
    every = ("cat-file", "--batch-all-objects", "--batch-check=%(objecttype)")
    assert set((await git(history, *every)).split()) == {b"commit"}


async def test_the_least_used_mirror_goes_first_and_one_in_use_stays(
    mirrors: Mirrors, remote: Remote
) -> None:
    places: dict[str, Path] = {}
    for age, name in enumerate(["acme/new", "acme/active", "acme/old", "acme/older"]):
        await mirrors.checkout(remote, name, "main")
        places[name] = mirrors.path_of(remote, name)
        used = time.time() - age * 7200
        os.utime(places[name].with_suffix(".lock"), (used, used))
    whole = await mirrors.evict(max_bytes=2**40, keep=[])
    assert whole.evicted_bytes == 0
    less = await mirrors.evict(max_bytes=whole.size_bytes - 1, keep=["Acme/Active"])
    assert 0 < less.evicted_bytes < whole.size_bytes
    assert [name for name, place in places.items() if not place.exists()] == ["acme/older"]
    await mirrors.evict(max_bytes=0, keep=["Acme/Active"])
    assert [name for name, place in places.items() if place.exists()] == ["acme/new", "acme/active"]
    await mirrors.checkout(remote, "acme/older", "main")
    assert places["acme/older"].exists()


@pytest.mark.parametrize("how", ["its settings", "other objects", "a common folder", "a link"])
async def test_a_mirror_that_somebody_put_there_runs_and_lends_nothing(
    mirrors: Mirrors, remote: Remote, tmp_path: Path, how: str
) -> None:
    place, ran = mirrors.path_of(remote, NAME), tmp_path / "ran"
    theirs = tmp_path / "theirs.git" if how == "a link" else place
    theirs.mkdir(parents=True)
    local_git.git(theirs, "init", "--quiet", "--bare")
    local_git.git(theirs, "config", "core.alternateRefsCommand", f"touch {ran}; :")
    local_git.git(theirs, "config", "remote.x.url", "x")
    if how == "other objects":
        (theirs / "objects/info/alternates").write_text(f"{tmp_path}/origin/.git/objects\n")
    elif how == "a common folder":
        (theirs / "commondir").write_text(f"{tmp_path}/origin/.git\n")
    elif how == "a link":
        place.parent.mkdir(parents=True)
        place.symlink_to(theirs)
    checkout = await mirrors.checkout(remote, NAME, "main")
    assert await git(checkout.git_dir, "show", f"{checkout.base}:shop.py") == SHOP
    assert not ran.exists()
    assert "remote" not in (place / "config").read_text()
    assert not (place / "objects/info/alternates").exists()
    assert not place.is_symlink()
