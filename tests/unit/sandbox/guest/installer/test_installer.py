"""The rules of the installer, on what uv prints and what files hold."""

import datetime
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pipeline.environment.record import EnvironmentRecord, TriedAttempt, is_enough
from sandbox.guest.installer import package, resolve
from sandbox.guest.installer import requirements as index
from sandbox.guest.installer.main import (
    Failed,
    explain_lock,
    install_locked,
    install_package,
    leave_elsewhere,
)
from sandbox.guest.installer.package import expand_keywords, find_untranslated
from sandbox.guest.installer.plan import Plan, latest_day, nearest_day
from sandbox.guest.installer.requirements import flatten, version_in, without
from sandbox.guest.installer.resolve import (
    FILTERED,
    explain_missing,
    find_culprits,
    find_lacking,
    last_line,
)
from sandbox.guest.installer.uv import SETUPTOOLS_FOR_EDITABLE, SETUPTOOLS_FOR_UV, TookTooLong, Uv
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)

BUILD = """\
  × Failed to build `pylibmc==1.6.3`
  ├─▶ The build backend returned an error
      fatal error: libmemcached/memcached.h: No such file or directory
  hint: this is about something else
"""
MISSING = """\
  × No solution found when resolving dependencies:
  ╰─▶ Because there are no versions of nonsense and you require nonsense>=3, we can conclude that
      your requirements are unsatisfiable.
  hint: `atomicwrites` was filtered by `exclude-newer` to only include packages uploaded before X
"""
RELEASED = [["3.6", "2016-12-23"], ["3.8", "2019-10-14"]]


def test_uv_names_what_it_cannot_have() -> None:
    assert find_culprits(BUILD) == {"pylibmc"}
    assert find_culprits(MISSING) == {"nonsense"}
    assert FILTERED.findall(MISSING) == ["atomicwrites"]
    assert last_line(MISSING) == "your requirements are unsatisfiable."


@pytest.mark.parametrize(("output", "lacks"), TEXTS["LACKING"])
def test_what_a_build_lacks_is_a_few_words(output: str, lacks: str) -> None:
    assert find_lacking(output).startswith(lacks)
    assert bool(find_lacking(output)) == bool(lacks)


@pytest.mark.parametrize(
    ("as_of", "python", "latest"),
    [
        ("2020-12-27", "3.8.18", "2021-01-10"),
        # No package older than the wheels for this Python.
        ("2013-01-24", "3.6.15", "2017-09-19"),
        ("", "3.8.18", None),
        (str(datetime.datetime.now(datetime.UTC).date()), "3.8.18", None),
    ],
)
def test_nothing_counts_that_is_newer_than_the_commit(
    as_of: str, python: str, latest: str | None
) -> None:
    found = latest_day(Plan(as_of=as_of, released=RELEASED), python)
    assert (str(found) if found else None) == latest


@pytest.mark.parametrize(
    ("as_of", "python", "nearest"),
    [
        # 3.8 was out for a month: the wheels of that time are tried, before those of 2020-07-10.
        ("2019-11-14", "3.8.18", "2019-11-28"),
        ("2019-10-13", "3.8.18", None),  # a day before it came out
        ("2020-12-27", "3.8.18", None),  # no young Python any more
        ("2019-11-14", "3.7.9", None),  # nobody knows when that came out
        ("", "3.8.18", None),
    ],
)
def test_where_a_python_was_young_the_wheels_of_the_commits_time_are_tried(
    as_of: str, python: str, nearest: str | None
) -> None:
    found = nearest_day(Plan(as_of=as_of, released=RELEASED), python)
    assert (str(found) if found else None) == nearest


def test_the_nearest_day_counts_only_if_it_has_wheels_of_everything() -> None:
    near, late = datetime.date(2019, 11, 28), datetime.date(2020, 7, 10)
    uv = Recorded((True, ""), latest=late)
    assert resolve.Resolver(uv, near).install_nearest(["asgiref"])
    assert (uv.latest, uv.asked) == (near, [["--only-binary", ":all:", "asgiref"]])

    uv = Recorded((False, BUILD), latest=late)
    resolver = resolve.Resolver(uv, near)
    assert not resolver.install_nearest(["asgiref"])
    assert (uv.latest, resolver.left_out) == (late, {})

    assert not resolve.Resolver(uv, near).install_nearest([])
    assert not resolve.Resolver(uv).install_nearest(["asgiref"])
    assert len(uv.asked) == 1


def test_setuptools_has_dates_of_its_own() -> None:
    uv = Uv(datetime.date(2018, 5, 1), {})
    uv.later["atomicwrites"] = "2022-08-07"
    assert uv.dates(SETUPTOOLS_FOR_EDITABLE)[2:4] == [
        "--exclude-newer-package",
        "setuptools=2022-09-30",
    ]
    assert "setuptools=2019-04-15" in uv.dates(SETUPTOOLS_FOR_UV)
    assert uv.dates(None)[-1] == "atomicwrites=2022-08-07"
    assert Uv(None, {}).dates(SETUPTOOLS_FOR_UV) == []


def test_requirement_files_are_read_flat_and_without_options(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/a.txt").write_text(
        "-r ../b.txt  # more\n-r a.txt\n--index-url https://pypi.org/simple\nsix >= 1 \\\n  , < 2\n"
        "-e git+https://e.org/x#egg=x\n-e .\n./local\n"
    )
    (tmp_path / "b.txt").write_text("flask==1 --hash=sha256:00\n# nothing\n")
    found = flatten(["tests/a.txt", "none.txt"], tmp_path)
    assert found[0] == "flask==1"
    assert found[-2:] == ["six >= 1    , < 2", "x @ git+https://e.org/x"]
    assert not any(line.startswith("-") for line in found)
    (tmp_path / "own.txt").write_text("-e .[cli, http2]\n.[socks]\n./[a]\n-e ./other[b]\nsix\n")
    assert flatten(["own.txt"], tmp_path, "httpx") == [
        "httpx[cli, http2]", "httpx[socks]", "httpx[a]", "six",
    ]  # fmt: skip
    assert flatten(["own.txt"], tmp_path) == ["six"]
    assert without(["Foo.Bar[x]>1", "baz"], ["foo-bar"]) == (["baz"], ["Foo.Bar[x]>1"])


@pytest.mark.parametrize(
    ("name", "file", "version"),
    [
        ("my.Pkg", "my_pkg-1.2.tar.gz", "1.2"),
        ("numpy", "numpy-1.26.4-cp311-cp311-manylinux_2_17_x86_64.whl", "1.26.4"),
        ("zope.interface", "zope.interface-5.0-py3.6-linux.egg", "5.0"),
        ("a", "ab-1.tar.gz", ""),
    ],
)
def test_a_files_name_says_its_version(name: str, file: str, version: str) -> None:
    assert version_in(name, file) == version


@pytest.mark.parametrize(
    ("until", "newest"),
    [
        ("2020-07-13", "6.0.0rc1"),  # announced after the last final release
        ("2020-06-15", "5.4.3"),  # an abandoned pre-release of long ago says nothing
        ("2020-08-01", "6.0.0.post1"),
        ("2010-01-01", ""),
    ],
)
def test_a_pre_release_counts_where_it_is_the_latest(
    monkeypatch: pytest.MonkeyPatch, until: str, newest: str
) -> None:
    days = {
        "9.0a1": "2015-01-01",
        "5.4.3": "2020-06-02",
        "5.4.10.dev1": "2020-06-01",
        "6.0.0rc1": "2020-07-08",
        "6.0.0b2": "2020-07-09",
        "6.0.0": "2020-07-28",
        "6.0.0.post1": "2020-07-29",
    }
    files = [{"filename": f"p-{v}.tar.gz", "upload-time": f"{d}T0:0:0Z"} for v, d in days.items()]

    def read(_: str) -> list[dict[str, Any]]:
        return files

    monkeypatch.setattr(index, "read_files", read)
    assert index.newest_release("p", until) == newest


def test_a_file_that_is_not_the_locked_one_is_named() -> None:
    mismatch = "  × Failed to download `a==1`\n  ╰─▶ Hash mismatch for `a==1`\n\n  Expected:\n"
    assert "a==1 do not have the hashes in the lock file" in explain_lock(mismatch)


def test_a_build_that_does_not_end_is_killed_and_reported() -> None:
    with pytest.raises(TookTooLong, match=r"sleep 60.*took longer than"):
        Uv(None, {}).run(["sleep", "60"], seconds=0.2)


def test_a_setup_script_that_loops_is_told_in_the_sentence_that_ends_the_attempts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*_: object, **__: object) -> tuple[bool, str]:
        raise TookTooLong("`uv pip install` took longer than 7 minutes.")

    monkeypatch.setattr(Uv, "install", never)
    with pytest.raises(Failed) as failed:
        install_package(Plan(setup_py=True), Uv(None, {}), 11, "1.0")
    attempt = TriedAttempt(name="dated", summary="", problem=str(failed.value))
    assert is_enough(EnvironmentRecord(tried=(attempt,)))


def test_a_build_that_waits_for_a_busy_host_is_not_killed() -> None:
    waiting = Uv(None, {}, queued=lambda: 3 * time.monotonic())
    assert waiting.run(["sleep", "1.5"], seconds=0.4) == (True, "")


class Recorded(Uv):
    """Answers with what uv printed, in order."""

    def __init__(self, *answers: tuple[bool, str], latest: datetime.date | None = None) -> None:
        super().__init__(latest, {})
        self.answers = list(answers)
        self.asked: list[list[str]] = []

    def install(self, words: Sequence[str], **_: Any) -> tuple[bool, str]:
        self.asked.append([*words[:-2], *Path(words[-1]).read_text().splitlines()])
        return self.answers.pop(0)


class Willing(Uv):
    """Does whatever it is asked for, but for one word."""

    def __init__(self, latest: datetime.date | None = None, refused: str = "-") -> None:
        super().__init__(latest, {})
        self.refused = refused
        self.folders: list[str | None] = []

    def run(self, argv: Sequence[str], **given: Any) -> tuple[bool, str]:
        self.folders.append(given.get("cwd"))
        return self.refused not in argv, "+ shop==1 (from file:///x)"


def test_the_commands_are_those_that_a_person_can_type() -> None:
    uv = Willing(datetime.date(2023, 3, 1))
    done, output = package.build_package(uv, Plan(), 11, {})
    assert done, output
    uv.keep_own("shop")
    assert resolve.Resolver(uv).install(["asgiref >= 3"], ["pytz"])
    own = "--overrides <(echo 'shop ; python_version < \"0\"')"
    assert uv.commands == [
        "uv pip install --exclude-newer 2023-03-01 --no-deps --reinstall -e .",
        f"uv pip install --exclude-newer 2023-03-01 'asgiref >= 3' pytz {own}",
    ]


def test_a_lock_is_recorded_by_commands_that_follow_each_other() -> None:
    uv = Willing()
    install_locked(Plan(uv_export=["--all-groups"], root="libs/a"), uv)
    # uv takes the paths in such a file from the folder in which it runs.
    assert uv.folders == ["/testbed/libs/a"] * 2
    assert uv.commands == [
        "uv export --frozen --no-emit-project --no-header --quiet --all-groups "
        "--output-file uv-lock.txt",
        "uv pip install --no-deps -r uv-lock.txt",
    ]


def test_what_installed_nothing_is_no_command_and_a_long_one_is_marked_as_cut() -> None:
    uv = Willing(refused="six")
    assert not uv.install(["six"])[0]
    assert uv.run(["python", "-c", "import pytz"])[0]
    assert uv.commands == []
    uv.install(["x" * 3000])
    assert len(uv.commands[0]) == 2000
    assert uv.commands[0].endswith("x [...]")


VERSIONEER: str = TEXTS["VERSIONEER"]


def test_versioneer_is_told_the_version_as_the_archive_of_a_release_tells_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "src/pad").mkdir(parents=True)
    own, other = tmp_path / "src/pad/_version.py", tmp_path / "src/pad/versions.py"
    own.write_text(VERSIONEER)
    other.write_text('git_refnames = " (tag: 0.9)"\n')
    (tmp_path / "version_link.py").symlink_to(own)
    assert expand_keywords(tmp_path, "1.2.4.dev5") == ["src/pad/_version.py"]
    told = VERSIONEER.replace('"$Format:%d$"', '" (tag: v1.2.4.dev5)"')
    assert own.read_text() == told
    assert other.read_text() == 'git_refnames = " (tag: 0.9)"\n'
    assert expand_keywords(tmp_path, "1.3") == []
    own.write_text(VERSIONEER)
    assert expand_keywords(tmp_path, '1") or ("') == []


def test_a_test_requirement_that_cannot_be_built_goes_by_its_name() -> None:
    uv = Recorded((False, BUILD), (True, ""))
    resolver = resolve.Resolver(uv)
    assert resolver.install(["asgiref"], ["pylibmc; os_name == 'posix'", "pytz"])
    assert uv.asked[-1] == ["asgiref", "pytz"]
    assert list(resolver.left_out) == ["pylibmc; os_name == 'posix'"]


def test_one_package_alone_may_be_newer(monkeypatch: pytest.MonkeyPatch) -> None:
    day = datetime.date(2019, 8, 3)
    uv = Recorded((False, MISSING), (True, ""), latest=day)

    def next_upload(name: str, after: datetime.date) -> datetime.date:
        assert (name, after) == ("atomicwrites", day)
        return datetime.date(2022, 7, 8)

    monkeypatch.setattr(resolve, "next_upload", next_upload)
    assert resolve.Resolver(uv).install(["atomicwrites"], ["nonsense>=3"])
    assert uv.later == {"atomicwrites": "2022-08-07"}
    assert uv.asked[-1] == ["atomicwrites", "nonsense>=3"]


def test_metadata_give_what_a_package_and_its_extras_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "lib/python3.8/site-packages"
    (site / "Shop-1.0.dist-info").mkdir(parents=True)
    (site / "Shop-1.0.dist-info/METADATA").write_text(
        "Name: Shop\nRequires-Dist: six (>=1)\nRequires-Dist: shop[deep]; extra == 'test'\n"
        "Requires-Dist: nose ; extra == 'deep'\nRequires-Dist: sphinx; extra == 'docs'\n\nText\n"
    )
    monkeypatch.setattr(package, "ENVIRONMENT", str(tmp_path))
    assert package.read_requirements("shop", ["test"]) == [
        "six (>=1)",
        'nose ; python_version >= "0"',
    ]


def test_cython_is_translated_where_the_build_names_c_that_is_not_there(tmp_path: Path) -> None:
    sources = "'pkg/a.c', \"pkg/b.cpp\", 'pkg/there.c', 'pkg/none.c', '../out.c', '-x.c'"
    (tmp_path / "setup.py").write_text(f"Extension('pkg.a', sources=[{sources}])\n")
    (tmp_path / "pkg").mkdir()
    for name in ("a.pyx", "b.pyx", "there.pyx", "there.c"):
        (tmp_path / "pkg" / name).touch()
    (tmp_path / "-x.pyx").touch()
    assert find_untranslated(tmp_path) == [("pkg/a", "c"), ("pkg/b", "cpp")]
    (tmp_path / "setup.py").write_text("'pkg/a.c'\n" + "#" * 1_000_000)
    assert find_untranslated(tmp_path) == []


WHEELS = """\
  × No solution found when resolving dependencies:
  ╰─▶ Because all versions of bottleneck have no usable wheels and distributed depends on
      bottleneck, we can conclude that distributed cannot be used. And because you require
      distributed, we can conclude that your requirements are unsatisfiable.
https://iris.example/
"""


@pytest.mark.parametrize(
    ("requirement", "output", "why"),
    [
        ("nonsense>=3", MISSING, "no such version"),
        ("pylibmc", BUILD, "libmemcached/memcached.h"),
        ("bottleneck", WHEELS, "no wheel"),
        ("distributed", WHEELS, "does not fit"),
        ("hdf5", "Because hdf5 was not found in the package registry and you", "does not have it"),
        ("iris", "boom\nhttps://iris.example/", "cannot be installed"),
    ],
)
def test_why_something_is_left_out_is_a_clause_of_our_own(
    requirement: str, output: str, why: str
) -> None:
    told = explain_missing(requirement, output)
    assert why in told
    assert not re.search("conclude|http", told)


def test_a_file_of_another_index_names_nothing_for_this_one(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("--index-url https://pypi.shop.example/simple\nshop-core\n")
    (tmp_path / "b.txt").write_text("-i https://pypi.org/simple\nsix\n-r a.txt\n")
    (tmp_path / "c.txt").write_text("--no-index\nlocal\n")
    assert flatten(["b.txt", "c.txt"], tmp_path) == ["six"]


def test_what_comes_from_elsewhere_is_left_out_by_name() -> None:
    resolver = resolve.Resolver(Uv(None, {}))
    plan = Plan(elsewhere={"shop-core": "it is a part of this repository"})
    kept = leave_elsewhere(plan, resolver, ["Shop_Core>=1", "six", "shop-core @ git+https://x"])
    assert kept == ["six", "shop-core @ git+https://x"]
    assert list(resolver.left_out) == ["Shop_Core>=1"]
