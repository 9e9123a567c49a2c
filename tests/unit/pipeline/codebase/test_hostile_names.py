"""Names that other systems confuse, and entries that git or a link would follow, are data here."""

from collections.abc import Mapping
from pathlib import Path

from pipeline.codebase.commit import Codebase
from pipeline.languages.detect import read_manifests
from tests.support.data.repositories import make_repository

LINKS = {
    ".github/workflows/test.yml": "/etc/passwd",
    ".github/capuchin.yml": "/proc/self/environ",
    "CHANGELOG.md": "../../../../../etc/passwd",
    "poetry.lock": "/dev/zero",
    "pyproject.toml": "/etc/passwd",
    "requirements.txt": "setup.py",
}
GITMODULES = """\
[submodule "x"]
\tpath = sub
\turl = ../../../../etc
\tupdate = !touch /tmp/ran
[submodule "../../hooks"]
\tpath = requirements
\turl = ext::sh -c touch% /tmp/ran
"""


async def open_codebase(
    folder: Path,
    files: Mapping[str, str],
    *,
    links: Mapping[str, str] | None = None,
    submodules: Mapping[str, str] | None = None,
) -> Codebase:
    commit = await make_repository(
        folder / "r.git", {"setup.py": "x\n", **files}, links=links, submodules=submodules
    )
    return await Codebase.open(folder / "r.git", commit)


async def test_names_that_differ_by_case_or_unicode_form_are_files_of_their_own(
    tmp_path: Path,
) -> None:
    names = ["A/b.py", "a/B.py", "a/b.py", "Setup.py", "\u00e9.py", "e\u0301.py", "\u212bb.py"]
    codebase = await open_codebase(tmp_path, {name: f"{n}\n" for n, name in enumerate(names)})
    assert {*codebase.files} == {"setup.py", *names}
    assert await codebase.read_texts(names) == {name: f"{n}\n" for n, name in enumerate(names)}
    assert {*read_manifests(await codebase.build_tree()).texts} == {"setup.py"}


async def test_the_longest_names_are_read_and_longer_paths_skipped(tmp_path: Path) -> None:
    names = ["n" * 255, "\u00e9" * 127, "/".join("a" * 2_000), "/".join("b" * 4_000)]
    codebase = await open_codebase(tmp_path, dict.fromkeys(names, "x\n"))
    assert {*codebase.files} == {"setup.py", *names[:3]}
    assert [skipped.path for skipped in codebase.skipped] == [names[3]]
    assert read_manifests(await codebase.build_tree()).names


async def test_no_link_is_followed_by_a_reader_of_settings(tmp_path: Path) -> None:
    codebase = await open_codebase(tmp_path, {}, links=LINKS)
    assert await codebase.read_texts(codebase.files) == {"setup.py": "x\n"}
    assert [await codebase.read_text(path) for path in LINKS] == [None] * len(LINKS)
    manifests = read_manifests(await codebase.build_tree())
    assert manifests.texts == {"setup.py": "x\n"}


async def test_a_submodule_is_nowhere_and_its_options_are_text(tmp_path: Path) -> None:
    codebase = await open_codebase(
        tmp_path,
        {".gitmodules": GITMODULES},
        submodules={"sub": "2" * 40, "requirements": "3" * 40, "poetry.lock": "4" * 40},
    )
    read = await codebase.read_texts(codebase.files)
    assert read == {"setup.py": "x\n", ".gitmodules": GITMODULES}
    assert [await codebase.read(path) for path in ("sub", "poetry.lock")] == [b"", b""]
    assert read_manifests(await codebase.build_tree()).names == (".gitmodules", "setup.py")
