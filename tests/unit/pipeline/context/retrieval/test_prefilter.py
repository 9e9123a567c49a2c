from pathlib import Path

import pytest

from pipeline.codebase.commit import Codebase
from pipeline.context.files.sources import find_sources
from pipeline.context.retrieval.bm25 import count_words
from pipeline.context.retrieval.prefilter import prefilter
from pipeline.context.retrieval.retrieve import build_reading_list
from pipeline.data.options import Options
from pipeline.data.types import Issue
from tests.support.data.repositories import make_codebase


def issue(title: str, body: str = "") -> Issue:
    return Issue(repository="a/b", title=title, body=body)


FILES = {
    "docs/conf.py": "x = 1\n",
    "pkg/user.py": "from pkg.heads import parse_header\nparse_header('a')\n",
    "pkg/heads.py": "def parse_header(line):\n    return line\n",
    "pkg/http.py": "import socket\n",
    "pkg/cookies.go": "package pkg\n\nfunc parseHeader() {}\n",
}
CRASH = issue("parse_header fails", 'File "/x/site-packages/pkg/http.py", line 3\nKeyError')


async def test_named_files_come_first_then_definitions_then_uses(tmp_path: Path) -> None:
    sources = await find_sources(await make_codebase(tmp_path / "r.git", FILES))
    found = await prefilter(sources, CRASH, 10)
    assert [hit.path for hit in found.kept] == [
        "pkg/http.py", "pkg/heads.py", "pkg/user.py", "pkg/cookies.go",
    ]  # fmt: skip
    assert found.kept[0].named
    assert "names this file" in found.kept[0].summary
    assert "parse_header" in found.kept[1].summary
    assert found.unread == ("docs/conf.py",)


async def test_the_words_of_a_path_count(tmp_path: Path) -> None:
    files = {"a/cookie_jar.py": "x = 1\n", "b/other.py": "x = 2\n", "c/third.py": "cookie = 1\n"}
    sources = await find_sources(await make_codebase(tmp_path / "r.git", files))
    found = await prefilter(sources, issue("The cookie jar is lost"), 10)
    assert [hit.path for hit in found.kept] == ["a/cookie_jar.py", "c/third.py"]


async def test_files_that_the_issue_names_are_kept_beyond_the_number_asked_for(
    tmp_path: Path,
) -> None:
    sources = await find_sources(await make_codebase(tmp_path / "r.git", FILES))
    crash = issue("It fails", "pkg/user.py\npkg/http.py\nparse_header")
    found = await prefilter(sources, crash, 1)
    assert [hit.path for hit in found.kept] == ["pkg/user.py", "pkg/http.py"]


async def test_files_of_a_name_that_the_issue_mentions_are_kept_but_get_no_place(
    tmp_path: Path,
) -> None:
    files = {**FILES, "a/ui.py": "x = 1\n", "b/ui.py": "x = 2\n"}
    sources = await find_sources(await make_codebase(tmp_path / "r.git", files))
    found = await prefilter(sources, issue("parse_header fails", "see ui.py"), 1)
    assert [hit.path for hit in found.kept] == ["pkg/heads.py", "a/ui.py", "b/ui.py"]
    assert not any(hit.named for hit in found.kept)
    assert found.kept[2].summary == "The issue mentions a file of this name."
    assert set(found.unread) == FILES.keys() - {"pkg/heads.py"}


async def test_a_file_that_the_issue_names_and_nobody_reads_is_reported(tmp_path: Path) -> None:
    files = {"pkg/api_pb2.py": "x = 1\n", "pkg/api.py": "x = 2\n"}
    codebase = await make_codebase(tmp_path / "r.git", files)
    trace = 'File "/x/pkg/api_pb2.py", line 1\nFile "/x/pkg/api.py", line 1'
    read = await build_reading_list(codebase, issue("It fails", trace), Options())
    assert read.explain_unread() == (
        "pkg/api_pb2.py, which the issue names, was not read: generated.",
        "1 file was not read to choose among them: generated.",
    )


async def test_only_the_file_that_the_issue_names_is_reported_not_its_namesakes(
    tmp_path: Path,
) -> None:
    files = {f"app/locale/{code}/app.po": "msgid\n" for code in ("ar", "bg", "da")}
    codebase = await make_codebase(tmp_path / "r.git", {**files, "app/a.py": "x = 1\n"})
    text = "I add `locale/da/app.po`, as `locale/<language>/app.po` says."
    read = await build_reading_list(codebase, issue("It fails", text), Options())
    assert read.explain_unread() == (
        "app/locale/da/app.po, which the issue names, was not read: documentation.",
        "3 files were not read to choose among them: documentation.",
    )


async def test_hostile_words_are_words(tmp_path: Path) -> None:
    sources = await find_sources(await make_codebase(tmp_path / "r.git", FILES))
    hostile = issue('" OR 1=1; DROP TABLE page --', "NEAR(parse AND (header* ^" + "x" * 300)
    kept = [hit.path for hit in (await prefilter(sources, hostile, 10)).kept]
    assert kept == ["pkg/cookies.go", "pkg/heads.py", "pkg/user.py"]
    assert (await prefilter(sources, issue("??", "\0"), 10)).kept == ()


async def test_the_index_is_kept_by_content_and_follows_the_commit(tmp_path: Path) -> None:
    one = await make_codebase(tmp_path / "r.git", FILES, loose=True)
    more = {**FILES, "pkg/new.py": "def parse_header(): ...\n"}
    other = await make_codebase(one.git_dir, more, loose=True)
    sources = await find_sources(one)
    first = await prefilter(sources, CRASH, 10)
    later = await find_sources(await Codebase.open(one.git_dir, one.commit))
    # Without these objects nothing of them can be read again.
    for file in sources.files:
        (one.git_dir / "objects" / file.blob[:2] / file.blob[2:]).unlink()
    assert await prefilter(later, CRASH, 10) == first
    found = await prefilter(await find_sources(other), CRASH, 10)
    assert {hit.path for hit in found.kept} == {"pkg/new.py", *(hit.path for hit in first.kept)}


@pytest.mark.parametrize(
    ("options", "read", "unread"),
    [
        ({}, 5, 0),
        ({"prefilter": "never", "prefilter_above": 1}, 5, 0),
        ({"prefilter_above": 4, "prefilter_keep": 2}, 2, 3),
        ({"prefilter_above": 5, "prefilter_keep": 2}, 5, 0),
        ({"prefilter": "always", "prefilter_keep": 4}, 4, 1),
    ],
)
async def test_the_prefilter_bounds_what_is_read_and_says_what_is_not(
    tmp_path: Path, options: dict[str, object], read: int, unread: int
) -> None:
    codebase = await make_codebase(tmp_path / "r.git", {**FILES, "README.md": "x\n"})
    found = await build_reading_list(codebase, CRASH, Options.model_validate(options))
    assert (len(found.files), len(found.unread)) == (read, unread)
    assert found.explain_unread()[-1] == "1 file was not read to choose among them: documentation."
    if unread:
        assert "in common with the issue" in found.explain_unread()[0]
        assert found.files[0].path == "pkg/http.py"


PIP_LIST = "\n".join(f"package{word}   1.{n}.0" for n, word in enumerate("abcdefgh"))
FROZEN = "\n".join(f"{word}thing==2.{n}" for n, word in enumerate("abcdefgh"))


def test_lists_of_packages_and_the_middle_of_logs_are_no_words_of_the_issue() -> None:
    log = "\n".join(["starting the engine", *["noise of workers"] * 200, "crash in totals"])
    body = f"The invoice 3 is wrong.\n\n{PIP_LIST}\n{FROZEN}\n\n```\n{log}\n```\n"
    words = count_words(issue("Wrong sum", body))
    assert not any(word.startswith("package") or word.endswith("thing") for word in words)
    assert words["noise"] == 78  # 40 lines of each end, one of which says something else
    assert {"invoice", "engine", "crash", "totals"} <= set(words)
