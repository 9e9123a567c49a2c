import codecs
from pathlib import Path

import pytest

from pipeline.codebase.commit import Codebase
from pipeline.edits.patches import read_patched
from pipeline.edits.read import ParsedEdit, read_edit
from pipeline.replies import Malformed
from tests.support.data.repositories import applied, make_codebase, make_repository


def block(path: str, search: str, replace: str) -> str:
    return f"{path}\n<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n"


async def after(codebase: Codebase, body: str, folder: Path) -> dict[str, bytes]:
    edited = await read_edit(body, codebase)
    assert isinstance(edited, ParsedEdit), edited
    return await applied(codebase, edited.patch.diff, folder)


async def refused(
    codebase: Codebase, body: str, known: tuple[str, ...] = (), never_touch: tuple[str, ...] = ()
) -> str:
    answer = await read_edit(body, codebase, known=known, never_touch=never_touch)
    assert isinstance(answer, Malformed), answer
    return answer.hint


CASES: dict[str, tuple[bytes, str, str, bytes]] = {
    "the only line of a file without a final line break": (b"a", "a\n", "A\n", b"A"),
    "a file in UTF-16": (
        codecs.BOM_UTF16_LE + "a\nö\n".encode("utf-16-le"),
        "ö\n",
        "Ö\n",
        codecs.BOM_UTF16_LE + "a\nÖ\n".encode("utf-16-le"),
    ),
    "CRLF and no final line break": (b"a\r\nb", "b\n", "B\n", b"a\r\nB"),
    "mixed line endings outside the block": (b"a\r\nb\nc\n", "c\n", "C\n", b"a\r\nb\nC\n"),
    "mixed line endings inside the block": (
        b"a\r\nb\nc\n",
        "a\nb\nc\n",
        "a\nb\nC\n",
        b"a\r\nb\nC\n",
    ),
    "the only line beyond ASCII of a Latin-1 file": (
        b"# coding: latin-1\nx = '\xe9'\n",
        "x = 'é'\n",
        "x = 'e'\n",
        b"# coding: latin-1\nx = 'e'\n",
    ),
    "everything deleted": (b"a\n", "a\n", "", b""),
    "a form feed and a vertical tab": (b"a\x0cb\n\x0b\nc\n", "c\n", "C\n", b"a\x0cb\n\x0b\nC\n"),
    "a lone carriage return": (b"a\rb\nc\n", "c\n", "C\n", b"a\rb\nC\n"),
}
"""Files of a nature that the corpus has none of."""


@pytest.mark.parametrize("case", CASES)
async def test_the_replacement_changes_nothing_else(case: str, tmp_path: Path) -> None:
    before, search, replace, expected = CASES[case]
    codebase = await make_codebase(tmp_path / "r.git", {"m.py": before, "other.txt": "x"})
    files = await after(codebase, block("m.py", search, replace), tmp_path / "out")
    assert files["m.py"] == expected
    assert files["other.txt"] == b"x"


async def test_lines_that_the_edit_so_far_has_changed_are_explained(tmp_path: Path) -> None:
    codebase = await make_codebase(tmp_path / "r.git", {"m.py": b"a = 1\nb = 2\n"})
    edited = await read_edit(block("m.py", "a = 1\n", "a = 3\n"), codebase)
    assert isinstance(edited, ParsedEdit)
    current = await read_patched(codebase, edited.patch.diff)
    again = await read_edit(block("m.py", "a = 1\n", "a = 4\n"), codebase, current=current)
    assert isinstance(again, Malformed)
    assert "your edit so far changes some of them" in again.hint
    unknown = await read_edit(block("m.py", "c = 1\n", "c = 4\n"), codebase, current=current)
    assert isinstance(unknown, Malformed)
    assert "your edit so far" not in unknown.hint


async def test_several_blocks_and_files_make_one_patch(tmp_path: Path) -> None:
    codebase = await make_codebase(
        tmp_path / "r.git", {"a.py": "one\ntwo\nthree\n", "gone.py": "x\n", "b/c d.py": "1\n"}
    )
    body = (
        "I change these:\n### `a.py`\n```python\n<<<<<<< SEARCH\none\n=======\n1\n"
        ">>>>>>> REPLACE\n```\n```\n<<<<<<< SEARCH\nthree\n=======\n3\n>>>>>>> REPLACE\n```\n"
        + block("b/c d.py", "1\n", "2\n")
        + block("new/pkg/__init__.py", "", "")
        + block("new/pkg/mod.py", "", "x = 1\n")
        + "gone.py\n<<<<<<< DELETE\n"
    )
    files = await after(codebase, body, tmp_path / "out")
    assert files == {
        "a.py": b"1\ntwo\n3\n",
        "b/c d.py": b"2\n",
        "new/pkg/__init__.py": b"",
        "new/pkg/mod.py": b"x = 1\n",
    }


async def test_a_huge_file_is_not_even_read(tmp_path: Path) -> None:
    codebase = await make_codebase(tmp_path / "r.git", {"huge.txt": "x\n" * 500_001})
    assert "leave it as it is" in await refused(codebase, block("huge.txt", "y\n", "z\n"))


async def test_attributes_of_the_repository_do_not_hide_a_change(tmp_path: Path) -> None:
    codebase = await make_codebase(
        tmp_path / "r.git", {".gitattributes": "*.py -diff text eol=crlf\n", "a.py": "a\n"}
    )
    edited = await read_edit(block("a.py", "a\n", "b\n"), codebase)
    assert isinstance(edited, ParsedEdit)
    assert "-a\n+b\n" in edited.patch.diff


async def test_the_mirror_gets_no_object_of_an_edit(tmp_path: Path) -> None:
    codebase = await make_codebase(tmp_path / "r.git", {"a.py": "a\n"})
    there = sorted((tmp_path / "r.git").rglob("*"))
    await read_edit(block("a.py", "a\n", "b\n"), codebase)
    assert sorted((tmp_path / "r.git").rglob("*")) == there


async def test_an_executable_file_stays_executable(tmp_path: Path) -> None:
    commit = await make_repository(tmp_path / "r.git", {"run": "a\n"}, executable=("run",))
    codebase = await Codebase.open(tmp_path / "r.git", commit)
    edited = await read_edit(block("run", "a\n", "b\n"), codebase)
    assert isinstance(edited, ParsedEdit)
    assert "100755" in edited.patch.diff
    assert "mode" not in edited.patch.diff


PATHS = {
    "a/../../x": "plain",
    "a//b": "plain",
    "C:/x": "relative",
    "a\\b": "forward slashes",
    ".GIT/hooks/x": "git's own",
    "sub/.git/config": "git's own",
    ".git /config": "space",
    ".git./config": "git's own",
    ".git::$INDEX_ALLOCATION/config": "git's own",
    "git~1/config": "git's own",
    ".g\u200cit/config": "control",
    "a\x00b": "control",
    "a\tb": "control",
    "a\u202eb": "control",
    ".GitHub/Workflows/x/y.yml": "workflow",
    ".github/actions/x/action.yml": "steers what runs",
    ".github/capuchin.yml": "steers what runs",
    ".capuchin.yml": "steers what runs",
    ".circleci/config.yml": "steers what runs",
    ".pre-commit-config.yaml": "steers what runs",
    ".devcontainer/devcontainer.json": "steers what runs",
    ".vscode/tasks.json": "steers what runs",
    "ci/Jenkinsfile": "steers what runs",
    "Renovate.json": "steers what runs",
    ".envrc": "steers what runs",
    ".GitLab-CI.yml": "steers what runs",
    "docs/CODEOWNERS": "who reviews",
    **dict.fromkeys(
        (".mcp.json", ".claude/settings.json", ".npmrc", "pkg/.npmrc", ".readthedocs.yaml"),
        "steers what runs",
    ),
    **dict.fromkeys(("AGENTS.md", "src/x.pth", "lib/sitecustomize.py"), "steers what runs"),
    **dict.fromkeys(
        ("conftest.py", "setup.py", "tox.ini", "Makefile", "package.json", "jest.config.js"),
        "new at the repository's root",
    ),
    "pkg/.gitattributes": "gitattributes",
    "secret/deep/x": "settings forbid",
    "deep/down/keys.pem": "settings forbid",
    "KEYS.pem": "settings forbid",
    "docs/x.md": "settings forbid",
    "x" * 300: "too long",
    "y/" * 600 + "z": "longer than",
}
"""Those that the corpus has none of."""


@pytest.mark.parametrize("path", PATHS)
async def test_a_hostile_path_is_refused(path: str, tmp_path: Path) -> None:
    codebase = await make_codebase(tmp_path / "r.git", {"a.py": "a\n"})
    hint = await refused(
        codebase, block(path, "", "x\n"), never_touch=("secret/", "**/*.pem", "*.lock", "./docs/")
    )
    assert PATHS[path] in hint


async def test_a_new_document_and_a_new_module_beside_others_are_welcome(tmp_path: Path) -> None:
    commit = await make_repository(tmp_path / "r.git", {"a.py": "a\n", "setup.py": "s\n"})
    codebase = await Codebase.open(tmp_path / "r.git", commit)
    for path in ("b.py", "NEWS.md", ".changeset/fix.md", "tests/conftest.py"):
        assert isinstance(await read_edit(block(path, "", "x\n"), codebase), ParsedEdit)
    assert isinstance(await read_edit(block("setup.py", "s\n", "t\n"), codebase), ParsedEdit)
