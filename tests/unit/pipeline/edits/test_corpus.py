"""Every edit of the corpus comes to what it must: applied to the byte, or explained."""

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import git
from pipeline.edits.read import ParsedEdit, read_edit
from pipeline.replies import Malformed
from tests.support.data.repositories import make_repository
from tests.unit.pipeline.edits.corpus.files import EXECUTABLE, FILES, LINKS, NEVER_TOUCH, SUBMODULES
from tests.unit.pipeline.edits.corpus.malformed import malformed
from tests.unit.pipeline.edits.corpus.well_formed import Case, well_formed

WELL_FORMED, MALFORMED = well_formed(), malformed()
KNOWN = ("plain.py", "pkg/helper.py", "pkg/other.py")


@pytest.fixture(scope="module")
def codebase(tmp_path_factory: pytest.TempPathFactory) -> Codebase:
    place = tmp_path_factory.mktemp("corpus") / "r.git"

    async def make() -> Codebase:
        commit = await make_repository(
            place, FILES, links=LINKS, executable=EXECUTABLE, submodules=SUBMODULES
        )
        await git(place, "read-tree", commit)
        return await Codebase.open(place, commit)

    return asyncio.run(make())


async def applied(codebase: Codebase, diff: str, folder: Path) -> dict[str, tuple[str, bytes]]:
    """Mode and content of every file that is another once `git apply` has been run."""
    index = folder / "index"
    shutil.copy(codebase.git_dir / "index", index)
    env = {"GIT_INDEX_FILE": str(index)}
    await git(codebase.git_dir, "apply", "--cached", "-", input=diff.encode(), env=env)
    there: dict[str, tuple[str, str]] = {}
    for entry in filter(
        None, (await git(codebase.git_dir, "ls-files", "-sz", env=env)).split(b"\0")
    ):
        facts, _, path = entry.decode().partition("\t")
        there[path] = (facts.split()[0], facts.split()[1])
    changed = {p: (mode, blob) for p, (mode, blob) in there.items() if blob != _blob(codebase, p)}
    contents = await _read_blobs(codebase, [blob for _, blob in changed.values()])
    found = {p: (mode, contents[blob]) for p, (mode, blob) in changed.items()}
    return {**found, **{path: ("gone", b"") for path in codebase.files if path not in there}}


async def _read_blobs(codebase: Codebase, blobs: list[str]) -> dict[str, bytes]:
    names = "".join(f"{blob}\n" for blob in blobs).encode()
    output = await git(codebase.git_dir, "cat-file", "--batch", input=names) if blobs else b""
    contents: dict[str, bytes] = {}
    for blob in blobs:
        header, _, rest = output.partition(b"\n")
        size = int(header.split()[2])
        contents[blob], output = rest[:size], rest[size + 1 :]
    return contents


def _blob(codebase: Codebase, path: str) -> str:
    file = codebase.files.get(path)
    return file.blob if file else ""


def test_the_corpus_has_more_than_three_hundred_edits_of_either_kind_a_hundred_at_least() -> None:
    assert len(WELL_FORMED) + len(MALFORMED) >= 300
    assert min(len(WELL_FORMED), len(MALFORMED)) >= 100
    names = [case.name for case in (*WELL_FORMED, *MALFORMED)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("case", WELL_FORMED, ids=lambda case: case.name)
async def test_a_well_formed_edit_does_what_it_says_to_the_byte(
    case: Case, codebase: Codebase, tmp_path: Path
) -> None:
    edited = await read_edit(case.body, codebase, known=KNOWN, never_touch=NEVER_TOUCH)
    assert isinstance(edited, ParsedEdit), edited
    found = await applied(codebase, edited.patch.diff, tmp_path)
    assert case.changes is not None
    expected = {path: data for path, data in case.changes.items() if data != FILES.get(path)}
    assert {p: None if mode == "gone" else data for p, (mode, data) in found.items()} == expected


@pytest.mark.parametrize("case", MALFORMED, ids=lambda case: case.name)
async def test_any_other_edit_is_explained_and_nothing_is_done(
    case: Case, codebase: Codebase
) -> None:
    answer = await read_edit(case.body, codebase, known=KNOWN, never_touch=NEVER_TOUCH)
    assert isinstance(answer, Malformed), answer
    assert re.search(case.said, answer.hint)
    assert len(answer.hint) < 3000


async def test_a_renamed_file_stays_executable(codebase: Codebase, tmp_path: Path) -> None:
    edited = await read_edit("no_suffix\n<<<<<<< RENAME bin/run\n", codebase)
    assert isinstance(edited, ParsedEdit)
    assert (await applied(codebase, edited.patch.diff, tmp_path))["bin/run"][0] == "100755"
