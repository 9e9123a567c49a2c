"""When more files look relevant than a solver can rank, and when its window is small."""

from pathlib import Path

from pipeline.context.finder import ContextFinder
from pipeline.context.retrieval.retrieve import MOST_RANKED
from pipeline.data.code_places import Context
from pipeline.data.options import Options
from pipeline.data.types import Issue
from pipeline.store import DirStore
from tests.support.data.repositories import make_codebase
from tests.support.fakes import ScriptedModel
from tests.support.recorded_scout import NO, YES

ISSUE = Issue(repository="a/b", title="parse_header fails", body="It fails.")
MANY = {f"pkg/m{n:03}.py": f"x = {n}\n" for n in range(MOST_RANKED + 40)}
TESTS = {f"tests/test_{n}.py": f"y = {n}\n" for n in range(20)}
FILES = {**MANY, **TESTS, "pkg/zz.py": "def parse_header(line):\n    return line\n"}


async def found(folder: Path, model: ScriptedModel, files: dict[str, str]) -> Context:
    finder = ContextFinder(
        solver=model, scout=model, store=DirStore(folder / "store"), options=Options(rankings=1)
    )
    context = await finder.find(await make_codebase(folder / "r.git", files), ISSUE)
    assert context is not None
    return context


async def test_of_too_many_relevant_files_those_most_like_the_issue_are_ranked(
    tmp_path: Path,
) -> None:
    ranking = "<ranking>\npkg/zz.py\ntests/test_0.py\n</ranking>"
    model = ScriptedModel({"relevance": [YES], "ranking/0": [ranking]})
    context = await found(tmp_path, model, FILES)
    assert [file.path for file in context.files] == ["pkg/zz.py", "tests/test_0.py"]
    (asked,) = [m.text for m in model.conversations["ranking/0"] if m.role == "user"]
    assert asked.count("<file path=") == MOST_RANKED
    assert asked.count('kind="test"') == len(TESTS)
    assert len(context.dropped) == len(FILES) - 2
    assert len(context.unneeded) == MOST_RANKED - 2
    assert len(context.without_room) == len(FILES) - MOST_RANKED
    assert context.findings is not None
    assert context.findings.invented == 0


async def test_the_question_for_a_ranking_fits_into_a_small_window(tmp_path: Path) -> None:
    long = '{"relevant": true, "summary": "' + "It adds things up. " * 70 + '"}'
    files = {path: MANY[path] for path in list(MANY)[:60]}
    ranking = "<ranking>\npkg/m000.py\n</ranking>"
    model = ScriptedModel({"relevance": [long], "ranking/0": [ranking]}, window=16_000)
    await found(tmp_path, model, files)
    (asked,) = [m.text for m in model.conversations["ranking/0"] if m.role == "user"]
    assert 5 < asked.count("<file path=") < 60
    assert len(asked) < 16_000 * 3


async def test_what_the_scout_could_not_judge_is_shown_last_and_within_what_was_asked_for(
    tmp_path: Path,
) -> None:
    files = {
        "pkg/a.py": "def parse_header(line):\n    return line\n",
        "pkg/b.py": "x = 1\n",
        "pkg/c.py": "print(1)\n" * 900,
        "pkg/d.py": "y = 1\n",
        "pkg/e.py": "y = 2\n",
    }

    def said(messages: object) -> str:
        text = str(messages)
        return "Hm." if "pkg/b.py" in text or "pkg/c.py" in text else YES if "pkg/a" in text else NO

    model = ScriptedModel({"relevance": [said], "ranking/0": ["<ranking>\npkg/a.py\n</ranking>"]})
    finder = ContextFinder(
        solver=model,
        scout=model,
        store=DirStore(tmp_path / "store"),
        options=Options(rankings=1, context_tokens=1000),
    )
    context = await finder.find(await make_codebase(tmp_path / "r.git", files), ISSUE)
    assert context is not None
    assert [file.path for file in context.files] == ["pkg/a.py", "pkg/b.py"]
    assert context.dropped == ("pkg/c.py",)
