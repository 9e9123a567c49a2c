"""The words of an issue: without addresses' furniture in scores, and without English in reasons."""

from pathlib import Path

from pipeline.context.files.sources import find_sources
from pipeline.context.retrieval.bm25 import count_words
from pipeline.context.retrieval.prefilter import prefilter
from pipeline.data.types import Issue
from tests.support.data.repositories import make_codebase

BODY = """
See http://www.sphinx-doc.org/en/master/usage/configuration.html#confval-locale_dirs and
[this](https://github.com/sphinx-doc/sphinx/blob/master/locale/da/sphinx.po), and over HTTP:
![Screenshot](https://yapb.in/exUE.png "A picture")

$ git clone https://github.com/jonascj/override.git
"""


def test_of_addresses_only_words_that_say_what_a_page_is_about_count() -> None:
    words = set(count_words(Issue(repository="a/b", title="https://x.com/pull/7", body=BODY)))
    assert {"configuration", "confval", "locale_dirs", "locale", "http", "picture"} <= words
    furniture = {"https", "www", "com", "org", "github", "blob", "master", "html", "pull", "git"}
    assert not words & (furniture | {"png", "exue", "clone"})


async def test_what_many_files_say_is_no_reason_for_one_of_them(tmp_path: Path) -> None:
    texts = {f"{n}.go": f"package flagset\nfunc Common{n}() {{}}\n" for n in range(30)}
    texts["0.go"] += "func repeated() {}\n"
    sources = await find_sources(await make_codebase(tmp_path / "r.git", texts))
    issue = Issue(repository="a/b", title="Wrong", body="package flagset: repeated()")
    first, *rest = (await prefilter(sources, issue, 30)).kept
    assert first.summary == "It shares with the issue: repeated."
    assert {hit.summary for hit in rest} == {""}


async def test_words_of_every_english_text_are_no_reason_for_a_file(tmp_path: Path) -> None:
    text = "# It doesn't set the caption after it has been translated.\ndef translate(): ...\n"
    sources = await find_sources(await make_codebase(tmp_path / "r.git", {"a.py": text}))
    body = "The caption doesn't get set after translate() has been called."
    found = await prefilter(sources, Issue(repository="a/b", title="Wrong", body=body), 5)
    (hit,) = found.kept
    assert hit.summary == "It shares with the issue: caption, translate."
    only_english = Issue(repository="a/b", title="It doesn't", body="It has been set after.")
    (hit,) = (await prefilter(sources, only_english, 5)).kept
    assert hit.summary == ""
    assert hit.score > 0
