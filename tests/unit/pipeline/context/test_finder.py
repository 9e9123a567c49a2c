from pathlib import Path

import pytest

from pipeline.context.files.sources import find_sources
from pipeline.context.finder import CONTEXT_KEY, ContextFinder
from pipeline.context.packing import FileBudget, pack
from pipeline.context.ranking import RankingMachine, RankingState, merge, parse_order
from pipeline.context.retrieval.prefilter import prefilter
from pipeline.context.scout import parse_verdict
from pipeline.context.tokens import estimate_tokens
from pipeline.data.code_places import Context
from pipeline.data.options import Options
from pipeline.data.types import Issue
from pipeline.machine import drive
from pipeline.models.base import ContextTooLong, ModelRefused
from pipeline.store import DirStore
from tests.support.data.repositories import make_codebase
from tests.support.fakes import Answer, ScriptedModel
from tests.support.texts import texts_of

ROWS = texts_of(__file__)

RELEVANT: dict[str, str] = ROWS["RELEVANT"]


@pytest.mark.parametrize("reply", RELEVANT)
def test_a_relevant_file_is_not_lost_to_the_form_of_the_answer(reply: str) -> None:
    assert parse_verdict(reply) == (True, RELEVANT[reply])


@pytest.mark.parametrize("reply", ROWS["an_irrelevant_file_is_known_in_every_dress"])
def test_an_irrelevant_file_is_known_in_every_dress(reply: str) -> None:
    said = parse_verdict(reply)
    assert said is not None
    assert not said.relevant


@pytest.mark.parametrize("reply", ["", "I cannot say.", "The relevance is hard to judge."])
def test_an_answer_without_a_verdict_is_unknown(reply: str) -> None:
    assert parse_verdict(reply) is None


def test_orders_are_merged_by_mean_relative_rank_and_absence_counts_as_the_end() -> None:
    # a: 0, 1/2, 1 -> 1/2; b: 1/2, 0, 0 -> 1/6; c: 1, 1, 1/2 -> 5/6
    assert merge([["a", "b"], ["b", "a"], ["b", "c"]]) == ["b", "a", "c"]
    assert merge([["a", "b", "c"]]) == ["a", "b", "c"]
    assert merge([[], ["a"]]) == ["a"]
    assert merge([]) == []


def test_ties_keep_the_earlier_order() -> None:
    assert merge([["a", "b"], ["b", "a"]]) == ["a", "b"]


def test_an_order_is_read_without_invented_paths_and_ornaments() -> None:
    body = "1. `a.py`\n- b/c.py\n\ninvented.py\na.py\n  2_d.py  \n'e f.py',"
    known = ["a.py", "b/c.py", "2_d.py", "e f.py"]
    body += "\n- `a.py` (the cause)\n2. **b/c.py**: its caller\nNEWS (an entry)\n"
    assert parse_order(body, known, {*known, "NEWS"}) == (
        ["a.py", "b/c.py", "2_d.py", "e f.py"],
        ["NEWS"],
        1,
    )


async def test_a_ranking_may_name_a_file_that_was_not_listed(tmp_path: Path) -> None:
    issue = Issue(repository="a/b", title="t", body="")
    rows = [{"path": "a.py", "summary": "", "tokens": 1, "test": False}]
    reply = "<ranking>\nnumbers.py\na.py\ninvented.py\n</ranking>"
    model = ScriptedModel({"ranking/0": [reply]})
    machine = RankingMachine(
        model, issue, rows, there=["a.py", "numbers.py"], budget=9, cap=9, number=0
    )
    state = await drive(machine, RankingState, DirStore(tmp_path), "ranking")
    assert (state.order, state.invented) == (["numbers.py", "a.py"], 1)


def test_packing_takes_in_turn_what_fits() -> None:
    tokens = {"a": 5, "b": 9, "c": 3}
    assert pack(["a", "b", "c"], tokens, 10) == ([FileBudget("a", 5), FileBudget("c", 3)], ["b"])


@pytest.mark.parametrize(
    ("text", "at_least"),
    [("", 0), ("x", 1), ("def f(x):\n    return x + 1\n", 12), ("0123456789", 10), ("中文字", 3)],
)
def test_tokens_are_rather_overestimated(text: str, at_least: int) -> None:
    assert at_least <= estimate_tokens(text) <= 2 * at_least + 2


def test_an_estimate_of_much_text_is_quick_and_sane() -> None:
    text = Path(__file__).read_text()
    assert len(text) / 4 < estimate_tokens(text) < len(text) / 2


ISSUE = Issue(
    repository="a/b",
    title="parse_header fails",
    body='File "/usr/lib/python3/site-packages/pkg/http.py", line 3\nKeyError in parse_header',
)


async def test_the_prefilter_prefers_named_files_then_definitions(tmp_path: Path) -> None:
    codebase = await make_codebase(
        tmp_path / "r.git",
        {
            "docs/conf.py": "x = 1\n",
            "pkg/user.py": "from pkg.heads import parse_header\n",
            "pkg/heads.py": "def parse_header(line):\n    return line\n",
            "pkg/http.py": "import heads\n",
        },
    )
    found = await prefilter(await find_sources(codebase), ISSUE, 3)
    assert [hit.path for hit in found.kept] == ["pkg/http.py", "pkg/heads.py", "pkg/user.py"]
    assert "names this file" in found.kept[0].summary
    assert found.unread == ("docs/conf.py",)


async def test_sources_are_text_that_people_wrote_python_first(tmp_path: Path) -> None:
    codebase = await make_codebase(
        tmp_path / "r.git",
        {
            "b.py": "x = 1\n",
            "a.js": "x\n",
            "logo.png": b"\0",
            "data.json": b"\0\1",
            "node_modules/x.js": "x\n",
            "a.min.js": "x\n",
            "packed.js": "x" * 5000,
            "static/jquery-3.5.1.js": "x\n",
            "static/jquery-ui-1.12.1.custom.css": "x\n",
            "static/jquery.init.js": "x\n",
            "step-2.js": "x\n",
            "locale/da/LC_MESSAGES/app.js": "add({});\n",
            "poetry.lock": "x\n",
            "package-lock.json": "{}\n",
            "empty.py": "\n",
            "big.py": "a = 1\n" * 70_000,
            "dense.py": "(((((((\n" * 20_000,
        },
    )
    sources = await find_sources(codebase)
    assert [file.path for file in sources.files] == [
        "b.py", "big.py", "dense.py", "a.js", "static/jquery.init.js", "step-2.js",
    ]  # fmt: skip
    assert {entry.path: entry.why for entry in sources.skipped} == {
        "logo.png": "binary",
        "data.json": "binary",
        "node_modules/x.js": "vendored",
        "a.min.js": "minified",
        "packed.js": "minified",
        "static/jquery-3.5.1.js": "vendored",
        "static/jquery-ui-1.12.1.custom.css": "vendored",
        "locale/da/LC_MESSAGES/app.js": "data",
        "poetry.lock": "lock file",
        "package-lock.json": "lock file",
        "empty.py": "empty",
    }


def model(
    *relevance: Answer, ranking: str = "<ranking>\nb.py\ntests/test_a.py\na.py\n</ranking>"
) -> ScriptedModel:
    return ScriptedModel(
        {"relevance": list(relevance), "ranking/0": [ranking], "ranking/1": [ranking]}
    )


FILES = {"a.py": "x = 1\n", "b.py": "y = 2\n", "tests/test_a.py": "def test(): pass\n"}


async def find(
    folder: Path, model: ScriptedModel, **options: object
) -> tuple[list[str], list[str]]:
    codebase = await make_codebase(folder / "r.git", FILES)
    settings = Options.model_validate({"rankings": 2, **options})
    finder = ContextFinder(
        solver=model, scout=model, store=DirStore(folder / "store"), options=settings
    )
    context = await finder.find(codebase, ISSUE)
    assert context is not None
    return [file.path for file in context.files], list(context.dropped)


async def test_tests_come_after_sources_whatever_the_ranking_says(tmp_path: Path) -> None:
    files, dropped = await find(tmp_path, model("RELEVANCE: relevant"))
    assert files == ["b.py", "a.py", "tests/test_a.py"]
    assert dropped == []


async def test_what_was_not_ranked_is_named_among_the_dropped(tmp_path: Path) -> None:
    asked = model("RELEVANCE: relevant", ranking="<ranking>\nb.py\n</ranking>")
    assert await find(tmp_path, asked) == (["b.py"], ["a.py", "tests/test_a.py"])
    context = await DirStore(tmp_path / "store").load(CONTEXT_KEY, Context)
    assert context is not None
    assert (context.unneeded, context.without_room) == (("a.py", "tests/test_a.py"), ())


async def test_what_was_ranked_and_does_not_fit_is_not_taken_for_unneeded(tmp_path: Path) -> None:
    files = {"a.py": "alpha = 1\n" * 150, "b.py": "alpha = 2\n" * 140, "c.py": "alpha = 3\n"}
    issue = Issue(repository="a/b", title="Wrong alpha", body="")
    asked = model(ranking="<ranking>\na.py\nb.py\n</ranking>")
    finder = ContextFinder(
        solver=asked,
        scout=None,
        store=DirStore(tmp_path / "store"),
        options=Options(rankings=1, context_tokens=1000, context_cap=1000),
    )
    context = await finder.find(await make_codebase(tmp_path / "r.git", files), issue)
    assert context is not None
    assert [file.path for file in context.files] == ["a.py"]
    assert (context.without_room, context.unneeded) == (("b.py",), ("c.py",))


async def test_a_namesake_of_the_file_that_the_issue_means_is_not_forced_on_the_solver(
    tmp_path: Path,
) -> None:
    """django-11490: `compiler.py#L428` brought the compiler of a database into every prompt."""
    files = {"sql/compiler.py": "columns = 1\n", "mysql/compiler.py": "columns = 2\n"}
    issue = Issue(repository="a/b", title="Wrong columns", body="(see compiler.py#L428-L433)")
    asked = model(ranking="<ranking>\nsql/compiler.py\n</ranking>")
    finder = ContextFinder(
        solver=asked, scout=None, store=DirStore(tmp_path / "store"), options=Options(rankings=1)
    )
    context = await finder.find(await make_codebase(tmp_path / "r.git", files), issue)
    assert context is not None
    assert [file.path for file in context.files] == ["sql/compiler.py"]
    question = asked.conversations["ranking/0"][0].text
    assert question.count("The issue mentions a file of this name.") == 2
    assert "names this file" not in question


@pytest.mark.parametrize("answer", ["?", ModelRefused("no")])
async def test_an_unreadable_verdict_keeps_the_file(tmp_path: Path, answer: Answer) -> None:
    assert len((await find(tmp_path, model(answer)))[0]) == 3


async def test_an_unreadable_verdict_is_asked_for_once_more(tmp_path: Path) -> None:
    asked = model("?")
    await find(tmp_path, asked)
    assert [call for call, _ in asked.asked].count("relevance") == 6


async def test_each_verdict_is_paid_for_once(tmp_path: Path) -> None:
    await find(tmp_path, model("RELEVANCE: relevant"))
    (tmp_path / "store/context/files.json").unlink()
    again = model(AssertionError("asked again"))
    codebase = await make_codebase(tmp_path / "r2.git", FILES)
    finder = ContextFinder(
        solver=again, scout=again, store=DirStore(tmp_path / "store"), options=Options(rankings=2)
    )
    assert await finder.find(codebase, ISSUE) is not None
    assert again.asked == []


async def test_a_scout_with_too_small_a_window_leaves_the_words_to_decide(tmp_path: Path) -> None:
    codebase = await make_codebase(tmp_path / "r.git", {"heads.py": "def parse_header(): 1\n"})
    asked = model(ContextTooLong("long"))
    finder = ContextFinder(
        solver=asked, scout=asked, store=DirStore(tmp_path / "store"), options=Options()
    )
    context = await finder.find(codebase, ISSUE)
    assert context is not None
    assert [file.path for file in context.files] == ["heads.py"]


async def test_a_ranking_is_greedy_and_knows_target_and_maximum(tmp_path: Path) -> None:
    asked = model("RELEVANCE: relevant")
    await find(tmp_path, asked, context_tokens=60_000, context_cap=90_000)
    assert {asked.temperatures[f"ranking/{n}"] for n in range(2)} == {0.0}
    question = asked.conversations["ranking/0"][-1].text
    assert "about 60000 tokens of files in all; 90000 is the maximum" in question
    system = " ".join(asked.systems["ranking/0"].split())
    assert "What you leave out may never be seen" in system
    assert "include every file that might need an edit" in system
