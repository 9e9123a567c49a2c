"""Environments that cannot be built or do not work, and one whose tests run by Django's labels."""

import dataclasses
import json
from pathlib import Path

import pytest

from bot.cli import local_run
from bot.data.failure import Failure
from capuchin_demo.recorded.recording import RecordedAnswer
from capuchin_demo.recorded.server import RecordedServer
from pipeline.data.options import Options
from pipeline.environment.health import Grade
from pipeline.environment.prepare import EnvironmentTask, open_environment
from pipeline.languages.detect import plan_attempts
from pipeline.store import DirStore
from sandbox.docker.docker_engine import DockerEngine, DockerOptions
from sandbox.engine import EnvironmentRequest
from sandbox.environment.build_options import BuildOptions
from sandbox.environment.recipe import Attempt
from sandbox.program import Program
from tests.e2e import shop
from tests.e2e.cli.local_fix import LocalFix
from tests.e2e.harness import StartBot
from tests.support.data.repositories import make_codebase
from tests.support.docker import ca_bundle
from tests.support.texts import texts_of

__all__ = ["ca_bundle"]


DOCKERFILE = {
    **shop.FILES,
    "ci/Dockerfile": "FROM capuchin/base\nRUN echo what went wrong && exit 7\nRUN true\n",
    ".github/capuchin.yml": "dockerfile: ci/Dockerfile\n",
}


async def test_on_github_it_is_reported_on_the_issue(start_recorded_bot: StartBot) -> None:
    async with start_recorded_bot() as bot:
        issue = await bot.open_issue(bot.add_repo(files=DOCKERFILE))
        run = await bot.solve(issue)
        assert run.failure is Failure.ENVIRONMENT
        (comment,) = issue.comments
        assert "RUN echo what went wrong && exit 7" in comment.body
        assert "\nwhat went wrong\n" in comment.body
        assert bot.llm.requests == []


UNDECLARED = {**shop.FILES, "shop/__init__.py": "import six\n"}
"""It needs what no file declares: every attempt ends well, and nothing can be imported."""
SETUP = "<setup>\npip install --quiet pytest 'six<2'\n</setup>\n"  # the smallest package there is
GONE = {**shop.FILES, "shop/__init__.py": "import nowhere_to_be_had\n"}
GIVEN_UP = "<give_up>\nNo index has nowhere_to_be_had.\n</give_up>"


async def test_a_models_commands_mend_what_no_attempt_could(tmp_path: Path) -> None:
    llm = RecordedServer(shop.answers(RecordedAnswer(call="environment", reply=SETUP)))
    async with llm.serve() as url:
        local = LocalFix(tmp_path, llm, url)
        local.commit(UNDECLARED)
        assert await local.fix() == local_run.FIXED
    calls = [request.call for request in llm.requests]
    assert calls[:2] == ["doctor/0", "environment"]  # one token first, before anything is installed
    assert calls.count("environment") == 1
    told = next(r for r in llm.requests if r.call == "testing/0").messages[0].text
    assert "1 of 1" in told
    assert "six==1." in told
    found = json.loads((local.out / "health.json").read_text())
    assert (found["rung"], found["grade"]) == ("model", "healthy")
    assert found["commands"] == ["pip install --quiet pytest 'six<2'"]
    assert [attempt["grade"] for attempt in found["attempts"][:-1]].count("healthy") == 0


async def test_where_nothing_helps_the_model_and_the_maintainer_are_told(tmp_path: Path) -> None:
    llm = RecordedServer(shop.answers(RecordedAnswer(call="environment", reply=GIVEN_UP)))
    async with llm.serve() as url:
        local = LocalFix(tmp_path, llm, url)
        local.commit(GONE)
        assert await local.fix() == local_run.NO_FIX
    told = next(r for r in llm.requests if r.call == "testing/0").messages[0].text
    assert "No module named 'nowhere_to_be_had'" in told
    found = json.loads((local.out / "health.json").read_text())
    assert (found["grade"], found["imports"], found["passed"]) == ("broken", False, 0)
    assert found["given_up"] == "No index has nowhere_to_be_had."
    report = (local.out / "report.md").read_text()
    assert "## Environment\n" in report
    assert "shop cannot be imported" in report
    assert json.loads((local.out / "report.json").read_text())["environment"] == found


class TwoWays(DockerEngine):
    """A real engine whose plan has a way that ends well and does not work, and then another."""

    async def plan(self, request: EnvironmentRequest) -> tuple[Attempt, ...]:
        broken, works = [
            (
                await plan_attempts(
                    dataclasses.replace(request, setup=[f"pip install --quiet pytest {more}"])
                )
            )[0]
            for more in ("", "'six<2'")
        ]
        return (
            dataclasses.replace(broken, name="broken", only=False),
            dataclasses.replace(works, name="works", only=False),
        )


async def test_the_next_attempt_is_made_where_the_first_cannot_be_imported(
    tmp_path: Path, ca_bundle: Path | None
) -> None:
    codebase = await make_codebase(tmp_path / "repo.git", UNDECLARED)
    engine = TwoWays(DockerOptions(build=BuildOptions(ca_bundle=ca_bundle)))
    store = DirStore(tmp_path / "run")
    request = EnvironmentRequest(await codebase.build_tree(), scope="tests/two-ways")
    task = EnvironmentTask(
        engine, request, "acme/shop", codebase, Options(), store, plan=engine.plan
    )
    async with open_environment(task) as environment:
        ran = await environment.sandbox.run(Program(("python", "-c", "import shop")))
        assert ran.passed
    await engine.close()
    tried = environment.record.tried
    assert [(attempt.name, attempt.grade) for attempt in tried] == [
        ("broken", Grade.BROKEN),
        ("works", Grade.HEALTHY),
    ]
    assert "No module named 'six'" in tried[0].line()


REQUIREMENTS = """\
django==4.2.16 --hash=sha256:1ddc333a16fc139fd253035a1606bb24261951bbc3a6ca256717fa06cc41a898
asgiref==3.8.1 --hash=sha256:3e1e3ecc849832fe52ccf2cb6686b7a55f82bb1d6aee72a58826471390335e47
sqlparse==0.5.1 --hash=sha256:773dcbf9a5ab44a090f3441e2180efe2560220203dc2f8c0b0fa141e18b505e4
"""
TEXTS = texts_of(__file__)
RUNTESTS: str = TEXTS["RUNTESTS"]
CASE: str = TEXTS["CASE"]
FILES = {
    **{path: text for path, text in shop.FILES.items() if path.startswith("shop/")},
    "requirements.txt": REQUIREMENTS,
    "tests/runtests.py": RUNTESTS,
    "tests/till/__init__.py": "",
    "tests/till/tests.py": CASE,
    ".github/capuchin.yml": (
        shop.ONE_SAMPLE
        + "setup: [pip install --quiet --no-deps --require-hashes -r requirements.txt]\n"
    ),
}
ADDED = "    def test_total(self):\n        self.assertEqual(total(1, 2), 3)\n"
WORDS = "<title>Add</title>\n<cause>The sign.</cause>\n<change>It adds.</change>\n"
EXTENSION = shop.edit(
    f"{ADDED}\n    def test_count(self):",
    path="tests/till/tests.py",
    before="    def test_count(self):",
)
HEAD = CASE.partition("    def")[0]
NEW_FILE = f"<test_file>\n{HEAD}{ADDED}</test_file>\n"


@pytest.mark.parametrize(
    ("test", "rung", "label"),
    [(EXTENSION, "extension", "till.tests"), (NEW_FILE, "new file", "till.test_till")],
    ids=["extension", "new file"],
)
async def test_it_runs_red_and_green_by_its_label(
    tmp_path: Path, test: str, rung: str, label: str
) -> None:
    right = RecordedAnswer(call="editing/0", turn=0, reply=shop.RIGHT)
    proof_of = RecordedAnswer(call="reproduction", reply=test + WORDS)
    llm = RecordedServer(shop.answers(right, proof_of))
    async with llm.serve() as url:
        local = LocalFix(tmp_path, llm, url)
        local.commit(FILES)
        assert await local.fix() == local_run.FIXED
    proof = json.loads((local.out / "report.json").read_text())["reproduction"]
    assert proof["rung"] == rung
    assert proof["command"][:2] == ["python", "tests/runtests.py"]
    assert proof["command"][-1] == label
    assert (proof["before"]["exit_code"], proof["after"]["exit_code"]) == (1, 0)
