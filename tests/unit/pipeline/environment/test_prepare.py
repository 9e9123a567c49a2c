"""The ladder: which attempts are made, which one serves, and what a model is asked."""

import dataclasses
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pipeline.data.options import Options
from pipeline.data.progress import Doing, EnvironmentFound, Event
from pipeline.environment.facts import facts_of, inform
from pipeline.environment.health import Grade
from pipeline.environment.prepare import (
    FAILED_KEY,
    Environment,
    EnvironmentTask,
    load_working_setup,
    open_environment,
)
from pipeline.environment.record import NO_INDEX, EnvironmentRecord
from pipeline.models.base import Message, ModelRequest
from pipeline.store import DirStore
from sandbox.engine import EnvironmentRequest
from sandbox.errors import EnvironmentFailed
from tests.support.data.repositories import make_codebase
from tests.support.fakes import Answer, DyingStore, Killed, ScriptedModel
from tests.support.planned_engine import PlannedEngine, tree_of

TEST = (
    "import unittest\n\nfrom shop.till import total\n\n\nclass TillTest(unittest.TestCase):\n"
    "    def test_total(self):\n        self.assertEqual(total([1]), 1)\n"
)
GOOD = {
    "shop/__init__.py": "",
    "shop/till.py": "def total(a):\n    return sum(a)\n",
    "tests/__init__.py": "",
    "tests/test_till.py": TEST,
    "pyproject.toml": "[project]\nname = 'shop'\n",
}
BROKEN = {**GOOD, "shop/__init__.py": "import not_installed_here\n"}
FEW_FAIL = {
    **GOOD,
    "tests/test_till.py": TEST
    + "".join(f"    def test_{n}(self):\n        self.assertNotEqual({n}, 3)\n" for n in range(12)),
}
HALF_FAIL = {
    **GOOD,
    "tests/test_till.py": TEST
    + "".join(f"    def test_{n}(self):\n        open('/no/{n}', opener=3)\n" for n in range(9)),
}
SETUP = "I pin it.\n\n<python>3.8</python>\n<setup>\npip install 'x<2'\npip install -e .\n</setup>"
SETUP_NAME = "pip install 'x<2';pip install -e ."


class Case:
    """A repository whose checkout in each image is given."""

    def __init__(self, folder: Path, engine: PlannedEngine) -> None:
        self.folder = folder
        self.engine = engine
        self.events: list[Event] = []
        self.run = DirStore(folder / "run")
        self.repository = DirStore(folder / "repository")

    async def prepare(
        self, answers: Mapping[str, Sequence[Answer]] | None = None, **changes: object
    ) -> Environment:
        git_dir = self.folder / "repo.git"
        codebase = await make_codebase(git_dir, GOOD) if not git_dir.exists() else self.codebase
        self.codebase = codebase
        self.model = ScriptedModel(answers) if answers is not None else None
        task = EnvironmentTask(
            engine=self.engine,
            plan=self.engine.plan,
            request=EnvironmentRequest(tree_of(GOOD), run_id="r"),
            repository="acme/shop",
            codebase=codebase,
            options=Options(),
            store=self.run,
            repository_store=self.repository,
            model=self.model,
            on_progress=self.events.append,
        )
        async with open_environment(dataclasses.replace(task, **changes)) as environment:
            assert environment.record.best
            line = environment.record.best.line()
            assert self.events[-1] == EnvironmentFound(line), "also when it is found again"
            return environment

    @property
    def said(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Doing)]


async def test_every_program_sees_the_variables_that_the_repository_sets(tmp_path: Path) -> None:
    files = {
        **GOOD,
        "tox.ini": "[testenv]\nsetenv =\n    SHOP_MODE = test\n",
        "shop/__init__.py": "import os\nMODE = os.environ['SHOP_MODE']\n",
    }
    case = Case(tmp_path, PlannedEngine(("one",), {"one": files}))
    codebase = await make_codebase(tmp_path / "shop.git", files)
    environment = await case.prepare({}, codebase=codebase)
    assert environment.record.health
    assert environment.record.health.grade is Grade.HEALTHY


async def test_a_healthy_environment_ends_the_search(tmp_path: Path) -> None:
    case = Case(tmp_path, PlannedEngine(("one", "two"), {"one": GOOD, "two": GOOD}))
    environment = await case.prepare({})
    health = environment.record.health
    assert environment.image == "one"
    assert health is not None
    assert (health.grade, health.passed, health.failed, health.collected) == (
        Grade.HEALTHY, 1, 0, 1,
    )  # fmt: skip
    assert case.engine.built == ["one"]
    assert case.engine.opened == ["one"], "the sandbox that was looked at serves"
    assert case.said[-1] == "Attempt one: shop can be imported. 1 of 1 test passes."


async def test_an_attempt_is_said_to_have_the_day_that_its_installer_recorded(
    tmp_path: Path,
) -> None:
    """Which Python is there, and of which day its wheels are, is known after the build."""
    summary = "Python 3.7, packages as of 2023-03-25, tox's requirements."
    engine = PlannedEngine(("one",), {"one": GOOD}, summary=summary, as_of="2023-07-21")
    engine.cut = "It was cut."
    case = Case(tmp_path, engine)
    environment = await case.prepare({})
    assert "packages as of 2023-03-25" in case.said[0]
    assert environment.record.best is not None
    told = "packages as of 2023-07-21 (newer: six), tox's requirements"
    assert f"{told}." in environment.record.best.summary
    assert f"{told}: shop can" in case.said[-1]
    assert case.said[-1].endswith(" 1 of 1 test passes. It was cut."), "people read it, too"


async def test_what_cannot_be_imported_is_left_for_the_next_attempt(tmp_path: Path) -> None:
    case = Case(tmp_path, PlannedEngine(("none", "bad", "good"), {"bad": BROKEN, "good": GOOD}))
    environment = await case.prepare({})
    assert environment.image == "good"
    lines = environment.record.lines()
    assert lines[0] == "Attempt none: not installed: none fails."
    assert "The package shop cannot be imported: ModuleNotFoundError: No module named" in lines[1]
    assert case.engine.opened == ["bad", "good"]


async def test_with_few_failures_one_more_attempt_is_made_and_the_best_kept(tmp_path: Path) -> None:
    engine = PlannedEngine(("some", "bad", "good"), {"some": FEW_FAIL, "bad": BROKEN, "good": GOOD})
    environment = await Case(tmp_path, engine).prepare({})
    assert environment.image == "some"
    assert engine.built == ["some", "bad"], "a third attempt is not worth its time"
    health = environment.record.health
    assert health is not None
    assert (health.grade, health.errors) == (Grade.USABLE, {"assertion": 1})


async def test_of_many_tests_a_few_may_fail(tmp_path: Path) -> None:
    more = "".join(f"    def test_{n}(self):\n        assert {n} != 3\n" for n in range(203))
    nearly = {**GOOD, "tests/test_till.py": TEST + more}
    engine = PlannedEngine(("nearly", "good"), {"nearly": nearly, "good": GOOD})
    environment = await Case(tmp_path, engine).prepare({})
    assert (environment.image, engine.built) == ("nearly", ["nearly"])


async def test_a_model_writes_the_commands_where_no_attempt_works(tmp_path: Path) -> None:
    case = Case(tmp_path, PlannedEngine(("bad",), {"bad": BROKEN, SETUP_NAME: GOOD}))
    environment = await case.prepare({"environment": ["<setup>\nfalse\n</setup>", SETUP]})
    assert environment.image == SETUP_NAME
    best = environment.record.best
    assert best is not None
    assert (best.name, best.python) == ("model", "3.8")
    assert case.engine.pythons[-1] == "3.8"
    assert case.model is not None
    question, report = (m.text for m in case.model.conversations["environment"] if m.role == "user")
    assert "No module named 'not_installed_here'" in question
    assert "[project]\nname = 'shop'" in question
    own = f"3.{sys.version_info[1]}"
    assert re.search(rf"These Pythons are in the sandbox: [\d., ]*{own}[,.]", question)
    assert "false fails." in report
    kept = await load_working_setup(case.repository)
    assert kept is not None
    assert kept.setup == ("pip install 'x<2'", "pip install -e .")

    other = Case(tmp_path, case.engine)
    other.run, other.codebase = DirStore(tmp_path / "other"), case.codebase
    case.engine.built.clear()
    again = await other.prepare({})
    assert (again.image, case.engine.built) == (SETUP_NAME, [SETUP_NAME])


@pytest.mark.parametrize("python", ["2.7", "2", "3.3"])
async def test_a_model_learns_at_once_which_pythons_are_too_old(
    tmp_path: Path, python: str
) -> None:
    case = Case(tmp_path, PlannedEngine(("bad",), {"bad": BROKEN}))
    setup = f"<python>{python}</python>\n<setup>\npip install -e .\n</setup>"
    await case.prepare({"environment": [setup, "<give_up>No.</give_up>"]})
    assert case.engine.built == ["bad"], "no build is spent on it"
    assert case.model is not None
    said = [m.text for m in case.model.conversations["environment"] if m.role == "user"]
    too_old = "Python 2 and Python 3 before 3.6 cannot be had here."
    assert too_old in said[0], "before it asks for one"
    assert too_old in said[-1]


async def test_an_environment_in_which_some_tests_pass_is_not_said_to_do_nothing(
    tmp_path: Path,
) -> None:
    case = Case(tmp_path, PlannedEngine(("half",), {"half": HALF_FAIL}))
    environment = await case.prepare({"environment": ["<give_up>No.</give_up>"]})
    assert "No attempt works well enough, so a model writes the commands." in case.said
    assert case.said[-1].startswith("The environment works only in part, and I found no better")
    assert environment.record.complaint().startswith("The repository works only in part in ")
    assert "The most frequent error: TypeError: 'int' object" in environment.record.lines()[0]
    worse = Case(tmp_path / "worse", PlannedEngine(("bad",), {"bad": BROKEN}))
    await worse.prepare({"environment": ["<give_up>No.</give_up>"]})
    assert "No attempt works, so a model writes the commands." in worse.said


async def test_a_model_that_gives_up_is_believed_and_the_solver_is_told(tmp_path: Path) -> None:
    case = Case(tmp_path, PlannedEngine(("bad",), {"bad": BROKEN}))
    answer = "<give_up>It needs a GPU.</give_up>"
    environment = await case.prepare({"environment": [answer]})
    assert environment.image == "bad"
    assert environment.record.given_up == "It needs a GPU."
    facts = facts_of(environment.record)
    assert facts is not None
    assert facts.distributions == ("pytest==5.4",)
    solver = ScriptedModel({"testing/0": ["x"], "relevance/0": ["x"]})
    informed = inform(solver, facts)
    for call in ("testing/0", "relevance/0"):
        await informed.complete(ModelRequest("", (Message(role="user", text="Issue"),), call))
    told = solver.conversations["testing/0"][0].text
    assert "The package shop cannot be imported" in told
    assert "This environment is broken" in told
    assert told.endswith("Issue")
    assert solver.conversations["relevance/0"][0].text == "Issue"


async def test_nobody_overrules_the_maintainers(tmp_path: Path) -> None:
    case = Case(tmp_path, PlannedEngine(("setup",), {"setup": BROKEN}, only=True))
    for model in (True, False):
        environment = await case.prepare({} if model else None)
        assert (environment.image, environment.record.asked) == ("setup", False)


async def test_a_repository_that_cannot_be_installed_is_reported_with_every_attempt(
    tmp_path: Path,
) -> None:
    case = Case(tmp_path, PlannedEngine(("one", "two"), {}))
    with pytest.raises(EnvironmentFailed) as refusal:
        await case.prepare({"environment": ["<give_up>No.</give_up>"]})
    assert str(refusal.value) == (
        "None of 2 ways to install it worked. (1) Attempt one: not installed: one fails. "
        "(2) Attempt two: not installed: two fails. The model gave up: No."
    )
    assert (refusal.value.command, refusal.value.log) == ("install one", "log one")
    failed = await case.run.load(FAILED_KEY, EnvironmentRecord)
    assert failed is not None
    assert len(failed.tried) == 2
    case.engine.built.clear()
    with pytest.raises(EnvironmentFailed):
        await case.prepare()
    assert case.engine.built == ["one", "two"], "the index may be back"


async def test_a_build_that_never_ends_is_not_begun_again(tmp_path: Path) -> None:
    endless = "The build of the package itself does not end: `uv` took longer than 7 minutes."
    case = Case(tmp_path, PlannedEngine(("one", "two"), {"two": GOOD}, problem=endless))
    with pytest.raises(EnvironmentFailed, match="took longer than 7 minutes"):
        await case.prepare()
    assert case.engine.built == ["one"]


async def test_a_restarted_run_repeats_no_attempt_and_looks_at_none_again(tmp_path: Path) -> None:
    engine = PlannedEngine(("none", "bad", "good"), {"bad": BROKEN, "good": GOOD})
    for dies_at in range(2, 40, 4):
        case = Case(tmp_path / str(dies_at), engine)
        case.run = DyingStore(tmp_path / str(dies_at) / "run", dies_at)
        try:
            first = await case.prepare({})
        except Killed:
            first = None
        tried = len(engine.built)
        case.run = DirStore(tmp_path / str(dies_at) / "run")
        again = await case.prepare({})
        assert again.image == "good"
        if first is not None:
            assert engine.built[tried:] == ["good"], "its image is looked for, and no other"
            return
    pytest.fail("it never came to its end")


async def test_what_served_an_earlier_run_is_not_looked_at_where_that_is_not_wanted(
    tmp_path: Path,
) -> None:
    case = Case(tmp_path, PlannedEngine(("bad", "good"), {"bad": BROKEN, "good": GOOD}))
    await case.prepare({})
    case.run = DirStore(tmp_path / "other")
    case.engine.built.clear()
    environment = await case.prepare(look=False)
    assert (environment.image, environment.record.health) == ("good", None)
    assert case.engine.built == ["good"]


@pytest.mark.parametrize(
    "log",
    [
        "ERROR: HTTP error 503 while getting https://index.test/files/uv.whl",
        # pip 23 with `-vv`, of an index that answers 502.
        "ERROR: No matching distribution found for uv\n  Could not fetch URL "
        "http://127.0.0.1:3141/simple/uv/: 502 Server Error: Bad Gateway for url: http://a/b"
        " - skipping",
    ],
)
async def test_no_model_is_asked_while_the_index_is_out_of_reach(tmp_path: Path, log: str) -> None:
    case = Case(tmp_path, PlannedEngine(("one", "two"), {}, log=log))
    with pytest.raises(EnvironmentFailed) as refusal:
        await case.prepare({})
    assert str(refusal.value) == f"None of 2 ways to install it worked. {NO_INDEX}"
    assert case.said[1] == f"Attempt one: not installed: {NO_INDEX}"
    assert refusal.value.log == log
