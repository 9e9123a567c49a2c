"""What a repository expects of an edit, read from a real history."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pipeline.codebase.commit import Codebase
from pipeline.data.code_places import Context, Habits, SourceFile
from pipeline.data.types import Issue
from pipeline.workflows.repo_conventions import note_habits, read_habits
from sandbox.frozen import replace
from tests.support.data.local_git import committed, repository

TEST = b"def test_total():\n    assert total() == 1\n"


async def habits_after(
    folder: Path,
    first: Mapping[str, bytes],
    *commits: Mapping[str, bytes],
    exclude: str = "",
    read: Sequence[str] = ("shop/till.py",),
) -> Habits:
    sha = repository(folder / "git", first)
    for one in commits:
        sha = committed(folder / "git", one)
    codebase = await Codebase.open(folder / "git" / ".git", sha)
    shown = tuple(SourceFile(path=path, text="", tokens=0) for path in read)
    context = Context(files=shown, scanned=1)
    return await read_habits(codebase, context, (exclude,) if exclude else ())


FIRST = {
    "shop/till.py": b"x = 0\n",
    "tests/test_till.py": TEST,
    "examples/test_till.py": TEST,
    "docs/CHANGES.rst": b"Next\n----\n\n- Totals add up.\n" + b"- old\n" * 500,
}


def fixes(count: int, *also: str) -> list[dict[str, bytes]]:
    """Commits that change the code, and the files `also`."""
    return [dict.fromkeys(("shop/till.py", *also), b"# %d\n" % n + TEST) for n in range(count)]


async def test_a_changelog_that_fixes_change_is_shown_under_its_path(tmp_path: Path) -> None:
    told = await habits_after(tmp_path, FIRST, *fixes(6, "docs/CHANGES.rst", "tests/test_till.py"))
    assert told.changelog == (
        "Changes that users notice are noted in docs/CHANGES.rst. "
        "7 of the last 7 commits that change code change it."
    )
    assert [file.path for file in told.newest] == ["docs/CHANGES.rst"]
    assert told.tests.startswith("7 of the last 7")
    assert told.nearest is not None
    assert told.nearest.path == "tests/test_till.py"


def changelog(*sizes: int, heading: str = "## {}") -> bytes:
    """A Markdown changelog, the newest section first; each has so many entries."""
    text = "# Changelog\n\nKeep a changelog.\n"
    for n, size in enumerate(sizes):
        entries = "- One entry.\n" * size
        text += f"\n{heading.format(f'1.{len(sizes) - n}')}\n\n### Fixed\n\n{entries}"
    return text.encode()


async def test_a_changelog_is_cut_between_sections_where_it_can_be(tmp_path: Path) -> None:
    first = {**FIRST, "docs/CHANGES.rst": changelog(50, 20, 100)}
    told = await habits_after(tmp_path, first, *fixes(6))
    shown = told.newest[0].text
    assert shown.endswith("- One entry.\n\n[... older sections are not shown ...]\n")
    assert ("## 1.3" in shown, "## 1.2" in shown, "## 1.1" in shown) == (True, True, False)
    assert shown.count("- One entry.") == 70


async def test_a_section_that_is_too_long_is_said_to_go_on(tmp_path: Path) -> None:
    first = {**FIRST, "docs/CHANGES.rst": changelog(2, 500, 20)}
    told = await habits_after(tmp_path, first, *fixes(6))
    assert told.newest[0].text.endswith(
        "\n[... the rest of this section, and what comes after it, is not shown ...]\n"
    )


@pytest.mark.parametrize("heading", ["## {}", "{}\n---"])
async def test_of_a_long_newest_section_both_ends_are_shown(tmp_path: Path, heading: str) -> None:
    """Some repositories put new entries at its end."""
    text = changelog(200, 3, heading=heading).decode()
    old, new = heading.format("1.1"), heading.format("1.2")
    entries = [f"- Entry {n:03},\n  in two lines.\n" for n in range(200)]
    text = text.replace("- One entry.\n" * 200, "".join(entries))
    told = await habits_after(tmp_path, {**FIRST, "docs/CHANGES.rst": text.encode()}, *fixes(6))
    shown = told.newest[0].text
    first, middle, last = shown.partition("\n[... the middle of this section is not shown ...]\n")
    assert middle
    assert (new in first, entries[0] in first) == (True, True)
    assert last.startswith("- Entry 1")
    assert last.endswith(f"{entries[-1]}\n[... older sections are not shown ...]\n")
    assert old not in shown
    assert 1300 < len(shown) < 1700


async def test_every_heading_of_a_long_newest_section_is_shown_with_its_last_entry(
    tmp_path: Path,
) -> None:
    """As in xarray's: an entry belongs below the heading of its kind."""
    kinds = ("New features", "Breaking changes", "Bug fixes", "Documentation")
    parts = [
        f"{kind}\n~~~~~~~~~\n\n" + "".join(f"- {kind} {n:02}.\n" for n in range(60))
        for kind in kinds
    ]
    old = "v1.1\n----\n\n- Old.\n"
    text = f"News\n====\n\nv1.2\n----\n\n{''.join(parts)}\n{old}"
    told = await habits_after(tmp_path, {**FIRST, "docs/CHANGES.rst": text.encode()}, *fixes(6))
    shown = told.newest[0].text
    for kind in kinds:
        assert f"{kind}\n~~~~~~~~~\n\n- {kind} 00.\n" in shown
        assert f"- {kind} 59.\n" in shown
    assert shown.count("[... the middle of this section is not shown ...]") == 4
    assert "Old." not in shown


async def test_the_nearest_tests_are_those_of_the_file_that_most_likely_needs_an_edit(
    tmp_path: Path,
) -> None:
    """A file further down may have tests of its very name; they matter less."""
    first = {
        "shop/till.py": b"x = 0\n",
        "shop/store.py": b"y = 0\n",
        "tests/test_counting.py": b"from shop import till\n\ndef test_a():\n    pass\n",
        "tests/test_store.py": TEST,
    }
    read = ("shop/till.py", "shop/store.py")
    found = await habits_after(tmp_path, first, read=read)
    assert found.nearest is not None
    assert found.nearest.path == "tests/test_counting.py"
    read = ("shop/till.py", "tests/test_store.py", "shop/store.py")
    assert (await habits_after(tmp_path / "shown", first, read=read)).nearest is None


async def test_the_nearest_tests_are_not_shown_a_second_time(tmp_path: Path) -> None:
    first = {
        "shop/till.py": b"x = 0\n",
        "tests/test_till.py": TEST,
        "tests/test_other.py": b"def test_other():\n    pass\n",
    }
    many = ("shop/till.py", *(f"shop/{n}.py" for n in range(10)))
    assert (await habits_after(tmp_path, first, read=(*many, "tests/test_till.py"))).nearest is None
    read = (*many, "tests/test_other.py")
    found = await habits_after(tmp_path / "other", first, read=read)
    assert found.nearest is not None
    assert found.nearest.path == "tests/test_till.py"


async def test_a_changelog_that_only_releases_change_is_not_mentioned(tmp_path: Path) -> None:
    first = {"docs/CHANGES.rst": FIRST["docs/CHANGES.rst"]}
    code = {path: text for path, text in FIRST.items() if path not in first}
    told = await habits_after(tmp_path, first, code, *fixes(6))
    assert (told.changelog, told.newest) == ("", ())


@pytest.mark.parametrize(("year", "is_named"), [("1999", False), ("2098", True), ("", True)])
async def test_a_changelog_whose_newest_entry_is_of_long_ago_is_not_mentioned(
    tmp_path: Path, year: str, is_named: bool
) -> None:
    """Of a shallow clone, no commits tell that nobody keeps it."""
    text = f"{year}-07-10  A B\n\n\tFix typo.\n"
    first = {**FIRST, "docs/CHANGES.rst": text.encode()}
    del first["shop/till.py"]
    told = await habits_after(tmp_path, first, read=())
    assert bool(told.changelog) is is_named
    assert bool(told.newest) is is_named


async def test_fragments_are_shown_one_by_one_and_cut_between_lines(tmp_path: Path) -> None:
    first = {**FIRST, "changelog/1.bugfix.rst": b"Old.\n"}
    del first["docs/CHANGES.rst"]
    notes = [{f"changelog/{n}.bugfix.rst": b"A fix.\n" * 300} for n in (2, 3, 4)]
    told = await habits_after(tmp_path, first, *fixes(3), *notes)
    assert "in files of their own in changelog." in told.changelog
    assert [file.path for file in told.newest] == [f"changelog/{n}.bugfix.rst" for n in (4, 3, 2)]
    assert all(f.text.endswith("A fix.\n[... more is not shown ...]\n") for f in told.newest)


async def test_where_numbers_name_the_fragments_an_issue_without_one_has_no_entry(
    tmp_path: Path,
) -> None:
    sha = repository(tmp_path / "git", {"changelog/1.bugfix.rst": b"Old.\n", "src/a.py": b""})
    codebase = await Codebase.open(tmp_path / "git" / ".git", sha)
    issue = Issue(repository="acme/shop", title="It subtracts", body="")
    context = Context(files=())
    noted = await note_habits(issue, context, codebase)
    assert (noted.numbered_entries, noted.beside) == ("changelog", ())
    told = await note_habits(replace(issue, number=7), context, codebase)
    assert (told.numbered_entries, told.beside) == ("", ("changelog/1.bugfix.rst",))
    sha = committed(tmp_path / "git", {"changelog/+.bugfix.rst": b"Newer, without a number.\n"})
    codebase = await Codebase.open(tmp_path / "git" / ".git", sha)
    assert (await note_habits(issue, context, codebase)).numbered_entries == ""


async def test_too_few_commits_tell_nothing_and_excluded_tests_are_not_shown(
    tmp_path: Path,
) -> None:
    told = await habits_after(tmp_path, FIRST, *fixes(1), exclude="tests/")
    assert told.tests == ""
    assert told.nearest is not None
    assert told.nearest.path == "examples/test_till.py"


async def test_fragments_are_known_by_their_names_where_no_history_shows_them(
    tmp_path: Path,
) -> None:
    files = {
        "CHANGELOG.rst": b"The change log is elsewhere.\n",
        "changelog/README.rst": b"How to write one.\n",
        "changelog/_template.rst": b"{{ text }}\n",
        "changelog/7389.trivial.rst": b"Rename.\n",
        "changelog/7491.bugfix.rst": b"Keep the order.\n",
        "src/a.py": b"",
    }
    habits = await habits_after(tmp_path, files)
    assert "files of their own in changelog." in habits.changelog
    assert [one.path for one in habits.newest] == [
        "changelog/7491.bugfix.rst",
        "changelog/7389.trivial.rst",
    ]


async def test_what_explains_the_change_log_is_no_example_of_it(tmp_path: Path) -> None:
    files = {"doc/whatsnew/index.rst": b"x\n", "doc/whatsnew/summary_explanation.rst": b"x\n"}
    assert (await habits_after(tmp_path, files)).changelog == ""


async def test_a_file_for_each_release_is_shown_by_the_latest_release(tmp_path: Path) -> None:
    names = [f"doc/whatsnew/v0.{n}.0.rst" for n in (9, 10, 11, 12, 2)]
    habits = await habits_after(tmp_path, dict.fromkeys((*names, "src/a.py"), b"x\n"))
    assert [one.path for one in habits.newest] == [
        f"doc/whatsnew/v0.{n}.0.rst" for n in (12, 11, 10)
    ]


async def test_fragments_without_a_suffix_are_known(tmp_path: Path) -> None:
    """As pylint has them."""
    names = ("374.bugfix", "8465.user_action", "_template.rst")
    files = {f"doc/whatsnew/fragments/{name}": b"x\n" for name in names}
    files |= {"doc/whatsnew/3/3.0/index.rst": b"x\n", "news/models.py": b"x = 0\n"}
    habits = await habits_after(tmp_path, files)
    assert "files of their own in doc/whatsnew/fragments." in habits.changelog
    assert [one.path.rpartition("/")[2] for one in habits.newest] == list(names[1::-1])


@pytest.mark.parametrize(
    ("path", "entry", "named"),
    [
        ("CHANGES", "* #8085: i18n: A single text domain", True),
        ("CHANGES.rst", "-   Nested blueprints. :issue:`4834`", True),
        ("CHANGES.md", "- Mended ([1](https://github.com/a/b/issues/1)).", True),
        ("CHANGES.md", "- Mended (GH-12).", True),
        ("changelog/7491.bugfix.rst", "Keep the order.", True),
        ("news/7491.bugfix", "Keep the order.", True),
        ("docs/whatsnew/1.2.rst", "Keep the order.", False),
        ("docs/whatsnew/12.rst", "Keep the order.", False),
        ("CHANGES.md", "# 1.2\n\n- Mended.\n", False),
    ],
)
def test_entries_that_name_issues_are_known(path: str, entry: str, named: bool) -> None:
    habits = Habits(newest=(SourceFile(path=path, text=entry, tokens=0),))
    assert habits.name_issues is named


async def test_a_folder_with_its_template_alone_is_collected_at_releases(tmp_path: Path) -> None:
    first = {
        **FIRST,
        "CHANGELOG.rst": b"Do not add entries to this file.\n",
        "changelog/README.rst": b"How.\n",
        "changelog/_template.rst": b"{{ x }}\n",
    }
    told = await habits_after(tmp_path, first, *fixes(6, "changelog/README.rst"))
    assert " in changelog, " in told.changelog
    assert told.newest == ()
    # The number of an issue that has none is not made up; that the entry lacks is said.
    assert (told.numbered_folder, told.forbids_entry(None), told.forbids_entry(7)) == (
        "changelog",
        True,
        False,
    )


async def test_of_a_long_file_for_a_release_both_ends_are_shown(tmp_path: Path) -> None:
    entries = b"".join(b"- Entry %d.\n" % n for n in range(400))
    first = {**FIRST, "doc/whatsnew/v0.12.2.rst": b"v0.12.2\n-------\n\n" + entries}
    told = await habits_after(tmp_path, first)
    (shown,) = told.newest
    assert "- Entry 0.\n" in shown.text
    assert "- Entry 399.\n" in shown.text
    assert len(shown.text) < 3000


async def test_the_maintainers_own_words_are_shown_shortened_and_named(tmp_path: Path) -> None:
    words = {
        "CONTRIBUTING.md": b"Write short lines.\n",
        "AGENTS.md": b"Never touch the till.\n" + b"x\n" * 5000,
        "CLAUDE.md": b"Write short lines.\n",
        "docs/AGENTS.md": b"Not at the root.\n",
    }
    told = await habits_after(tmp_path, {**FIRST, **words})
    assert [file.path for file in told.words] == ["AGENTS.md", "CLAUDE.md"]
    assert "Never touch the till." in told.words[0].text
    assert sum(len(file.text) for file in told.words) < 4000
    hidden = await habits_after(tmp_path / "other", {**FIRST, **words}, exclude="*.md")
    assert hidden.words == ()


async def test_of_a_long_guide_what_is_asked_of_a_change_is_shown_first(tmp_path: Path) -> None:
    """Of vue's the kinds of pull requests were shown, and not that commits follow a convention."""
    filler = "Share some love.\n" * 200
    guide = (
        f"# Contributing\n\n{filler}\n## Money\n\n{filler}\n"
        "## Pull requests\n\nKeep them small.\n\n"
        f"### Checklist\n\nAdd a test.\n\n## Setup\n\n{filler}\n## Commit messages\n\n"
        "Like `fix(till): add up`.\n\n" + "More.\n" * 1000
    )
    told = await habits_after(tmp_path, {**FIRST, "CONTRIBUTING.md": guide.encode()})
    shown = told.words[0].text
    for asked in ("Keep them small.", "### Checklist\n\nAdd a test.", "Like `fix(till): add up`."):
        assert asked in shown
    assert "## Money" not in shown
    assert len(shown) < 3200
    assert shown.index("Keep them small.") < shown.index("Like `fix(till)")


async def test_a_changelog_that_a_tool_writes_from_the_commits_is_not_mentioned(
    tmp_path: Path,
) -> None:
    package = b'{"scripts": {"changelog": "conventional-changelog -p angular -i CHANGES.rst"}}'
    told = await habits_after(tmp_path, {**FIRST, "package.json": package}, *fixes(6))
    assert (told.changelog, told.newest) == ("", ())
