"""`capuchin select`: the choice among diffs and branches, whatever an edit says of itself."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import cast

import pytest
from pydantic import SecretStr

from bot.cli import local_run
from bot.cli import replay as cli_replay
from bot.cli import select as cli_select
from bot.settings import Settings
from capuchin_demo.recorded.recording import RecordedAnswer
from capuchin_demo.recorded.server import RecordedServer
from pipeline.data.options import ONLY_FIXED
from sandbox.frozen import replace
from tests.e2e import shop
from tests.e2e.cli.local_fix import parse_arguments, seal
from tests.support.certificates import host_certificates
from tests.support.command_line import ended_with
from tests.support.data import local_git
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)


async def test_the_best_of_diffs_and_branches_is_chosen_by_a_given_test_without_any_model(
    desk: Desk,
) -> None:
    desk.branch("wrong", {"shop/till.py": NOT_RIGHT})
    desk.branch("right", {"shop/till.py": RIGHT})
    broken = desk.file("broken.diff", "--- a/none.py\n+++ b/none.py\n@@ -1 +1 @@\n-x\n+y\n")
    wrong, empty = desk.diff("wrong.diff", "wrong"), desk.file("empty.diff", "")
    test = desk.file("T.py", SCRIPT)
    out = ("--test", test, "--out", str(desk.out))
    edits = ("--patch", wrong, broken, "--patch", empty, "--branch", "right")
    report = (await ended_with(local_run.FIXED, desk.select(*edits, *out, "--json"))).json
    assert report == desk.report()
    assert (report["outcome"], report["title"], report["accounts"]) == ("fix", "right", [])
    # The unedited code, then edit A: the best comes first.
    assert [row["results"] for row in report["table"]] == [[False], [True], [False]]
    assert report["order"] == ["right", wrong]
    assert [r["name"] for r in report["rejected"]] == [broken, empty]
    assert "none.py" in report["rejected"][0]["why"]
    assert report["suite"]["broken"] == []
    assert "+    return a + b" in (desk.out / "patch.diff").read_text()
    text = (desk.out / "report.md").read_text()
    assert "`right`" in text
    assert local_git.git(desk.repo, "status", "--porcelain") == ""
    # The same again from the bundle, without Docker, model or repository.
    told = (await ended_with(local_run.FIXED, desk.replay("--json"))).json
    assert (told["equal"], told["chosen"], told["order"]) == (True, "right", ["right", wrong])
    voted = await ended_with(local_run.FIXED, desk.replay("--selection", "voting"))
    assert "right" in voted.out


async def test_a_test_that_asks_for_what_the_issue_changes_counts_against_no_edit(
    tmp_path: Path,
) -> None:
    old = "from shop.till import count, total\n\n\ndef test_old():\n    assert total(3, 1) == 2\n"
    counts = "\n\ndef test_count():\n    assert count([1]) == 1\n"
    desk = Desk(
        tmp_path, "", tmp_path / "environment", {**shop.FILES, "tests/test_old.py": old + counts}
    )
    desk.branch("right", {"shop/till.py": RIGHT})
    desk.branch("also", {"shop/till.py": TILL.replace("a - b", "sum([b, a])")})
    desk.branch("worse", {"shop/till.py": RIGHT.replace("len(items)", "2")})
    edits = [word for name in ("right", "also", "worse") for word in ("--branch", name)]
    test = ("--test", desk.file("T.py", SCRIPT), "--out", str(desk.out))
    assert await desk.select(*edits, *test) == local_run.FIXED
    report = desk.report()
    assert report["title"] in ("right", "also")
    broken = cast(dict[str, list[str]], report["suite"])["broken"]
    assert [name.rpartition("::")[2] for name in broken] == ["test_old"]
    assert any("test_old" in note for note in cast(list[str], report["notes"]))
    # Where only one edit breaks it, that edit is not proposed.
    desk.keep_runs(desk.out, desk.out / "alone")
    alone = ("--branch", "right", *test[:3], str(desk.out / "alone"))
    assert await desk.select(*alone) == local_run.NO_FIX


async def test_a_needless_large_file_does_not_win_over_two_equal_small_edits(desk: Desk) -> None:
    large = "".join(f"def unused_{n}(x):\n    return x + {n}\n" for n in range(25_000))
    desk.branch("padded", {"shop/till.py": RIGHT, "shop/more.py": large})
    desk.branch("small", {"shop/till.py": RIGHT})
    desk.branch("equal", {"shop/till.py": RIGHT + "\n# Adds up.\n"})
    edits = [word for name in ("padded", "small", "equal") for word in ("--branch", name)]
    test = ("--test", desk.file("T.py", SCRIPT))
    assert await desk.select(*edits, *test, "--out", str(desk.out)) == local_run.FIXED
    assert desk.report()["title"] == "small"


async def test_edits_bring_their_own_tests_and_an_honest_no_has_its_exit_code(desk: Desk) -> None:
    desk.branch("claims", {"shop/till.py": NOT_RIGHT, "tests/test_total.py": TEST_FILE})
    desk.branch("other", {"shop/till.py": NOT_RIGHT + "\n# Done.\n"})
    edits = ("--branch", "claims", "--branch", "other", "--out", str(desk.out))
    assert await desk.select(*edits) == local_run.NO_FIX
    report = desk.report()
    assert (report["outcome"], report["reason"]) == ("no fix", "no edit passes its test")
    assert not (desk.out / "patch.diff").exists()
    text = (desk.out / "report.md").read_text()
    assert "none of them" in text
    assert await desk.replay() == local_run.NO_FIX


async def test_without_any_test_a_solver_writes_some_and_the_ceiling_holds(
    desk: Desk,
) -> None:
    desk.branch("wrong", {"shop/till.py": NOT_RIGHT})
    desk.branch("right", {"shop/till.py": RIGHT})
    desk.branch("also", {"shop/till.py": TILL.replace("a - b", "b + a")})
    edits = ("--branch", "wrong", "--branch", "right", "--branch", "also")
    out, asking = ("--out", str(desk.out)), desk.asking
    spent = await desk.select(*edits, "--budget", "0.000001", *out, settings=asking)
    assert (spent, desk.report()["reason"]) == (local_run.OUT_OF_BUDGET, "out of budget")
    assert await desk.select(*edits, *out, settings=asking) == local_run.FIXED
    assert desk.report()["title"] in ("right", "also")
    told = (await ended_with(local_run.FIXED, desk.replay("--json"))).json
    assert (told["decided_by"], told["equal"]) == ("model", True)
    assert "1 written by me" in (desk.out / "report.md").read_text()
    # Neither test nor solver: what the edits have in common decides, and it is said.
    desk.keep_runs(desk.out, desk.out / "alone")
    alone = (
        "--set",
        "confidence=0",
        "--set",
        "selection=ast_voting",
        "--out",
        str(desk.out / "alone"),
    )
    assert await desk.select(*edits, *alone) == local_run.FIXED
    assert "no test" in (desk.out / "alone" / "report.md").read_text()


async def test_wrong_usage_is_one_sentence(desk: Desk) -> None:
    big = desk.file("big.py", "#" * 300_000)
    patch = ("--patch", desk.file("a.diff", "x"))
    for words, said in (
        ((), "There is nothing to choose from: give --patch or --branch."),
        (("--patch", "none.diff"), "none.diff: No such file or directory."),
        (("--branch", "--output=x"), "has no branch --output=x."),
        ((*patch, "--test", big), "is larger than 256 KiB."),
        ((*patch, "--set", "confidence=7"), "--set confidence: Input should be less than"),
    ):
        args = [f"{w}={words[n + 1]}" if w == "--branch" else w for n, w in enumerate(words)]
        args = [w for n, w in enumerate(args) if not (n and words[n - 1] == "--branch")]
        assert said in (await ended_with(local_run.USAGE, desk.select(*args))).err


SCRIPT = "import sys\nfrom shop.till import total\nsys.exit(0 if total(1, 2) == 3 else 2)\n"
TEST_FILE = "from shop.till import total\n\n\ndef test_total():\n    assert total(1, 2) == 3\n"
TILL = shop.FILES["shop/till.py"]
NOT_RIGHT = TILL.replace("a - b", "abs(a - b)")
RIGHT = TILL.replace("a - b", "a + b")
RUNS = ("control", "controls", "environment", "near", "regression", "reports", "votes")
"""Where `capuchin select` keeps what ran with each edit."""


class Desk:
    """A folder with a repository, an issue file and edits."""

    def __init__(
        self, folder: Path, url: str, environment: Path, files: Mapping[str, str] = shop.FILES
    ) -> None:
        """`environment` is what the first selection of this process found of the repository's
        environment, which is always the same; the others go on from a copy."""
        self.folder = folder
        self._environment = environment
        self.repo, self.issue, self.out = folder / "repo", folder / "issue.md", folder / "out"
        self.issue.write_text(f"{shop.TITLE}\n\n{shop.BODY}\n")
        local_git.repository(self.repo, files)
        certificates = host_certificates()
        self.alone = Settings(
            build_ca_bundle=Path(certificates) if certificates else None, data_dir=folder / "data"
        )
        self.asking = replace(
            self.alone,
            solver_model="anthropic:recorded-claude-sonnet-4-6",
            anthropic_api_key=SecretStr("recorded"),
            anthropic_base_url=url,
            generators=ONLY_FIXED,
        )

    def branch(self, name: str, files: dict[str, str]) -> None:
        local_git.git(self.repo, "checkout", "--quiet", "-b", name, "main")
        local_git.committed(self.repo, files)
        local_git.git(self.repo, "checkout", "--quiet", "main")

    def file(self, name: str, text: str | bytes) -> str:
        path = self.folder / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)

    def diff(self, name: str, branch: str) -> str:
        return self.file(name, local_git.git(self.repo, "diff", "main", branch) + "\n")

    async def select(self, *more: str, settings: Settings | None = None) -> int:
        args = ["select", "--repo", str(self.repo), "--issue", str(self.issue), *more]
        asked = parse_arguments(args, cli_select.register)
        found = (asked.out or self.folder / "none") / "run/environment"
        if asked.out and self._environment.exists() and not found.parent.exists():
            shutil.copytree(self._environment, found)
            seal(asked.out, self.alone)
        code = await cli_select.run_command(asked, settings or self.alone)
        if found.exists() and not self._environment.exists():
            shutil.copytree(found, self._environment)
        return code

    def keep_runs(self, done: Path, out: Path) -> None:
        """Let a selection into `out` go on from what ran for one into `done`, and decide anew."""
        for kept in RUNS:
            if (done / "run" / kept).exists():
                shutil.copytree(done / "run" / kept, out / "run" / kept)
        seal(out, self.alone)

    async def replay(self, *more: str) -> int:
        args = ["replay", str(self.out / "run.tar.zst"), *more]
        return await cli_replay.run_command(parse_arguments(args, cli_replay.register))

    def report(self) -> dict[str, object]:
        return json.loads((self.out / "report.json").read_text())


@pytest.fixture(scope="session")
def desk_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the first selection makes."""
    return tmp_path_factory.mktemp("desk") / "environment"


@pytest.fixture
async def desk(tmp_path: Path, desk_environment: Path) -> AsyncGenerator[Desk]:
    script = RecordedAnswer(call="selecting", turn=0, reply=shop.SCRIPT)
    choice = RecordedAnswer(call="selecting", reply="<choice>1</choice>")
    llm = RecordedServer(shop.answers(script, choice))
    async with llm.serve() as url:
        yield Desk(tmp_path, url, desk_environment)
    assert llm.unexpected == []


ENDS_WITH_0 = "import atexit, os\natexit.register(os._exit, 0)\n"

RECORDS: str = TEXTS["RECORDS"]
MARKER_TEST = "import shop.till\n\n\ndef test_marker():\n    assert shop.till.MARKER == 1\n"


READS_ITS_CALLER: str = TEXTS["READS_ITS_CALLER"]
"""It returns what its caller compares with."""


async def test_an_edit_that_reads_the_expected_value_off_its_caller_does_not_beat_an_honest_one(
    desk: Desk,
) -> None:
    desk.branch("forged", {"shop/till.py": READS_ITS_CALLER})
    desk.branch("honest", {"shop/till.py": TILL.replace("a - b", "abs(a) + b")})  # imperfect
    more = SCRIPT.replace("total(1, 2) == 3", "total(-1, 5) == 4")
    tests = ("--test", desk.file("T.py", SCRIPT), "--test", desk.file("U.py", more))
    edits = ("--branch", "forged", "--branch", "honest", "--out", str(desk.out))
    assert await desk.select(*edits, *tests) == local_run.FIXED
    report = desk.report()
    assert report["title"] == "honest"
    (rejected,) = cast(list[dict[str, str]], report["rejected"])
    assert rejected["name"] == "forged"
    assert "read off the script" in rejected["why"]


async def test_an_edit_that_forges_alone_is_not_chosen(desk: Desk) -> None:
    desk.branch("forged", {"conftest.py": RECORDS, "shop/till.py": ENDS_WITH_0 + TILL})
    test = ("--test", desk.file("T.py", SCRIPT), "--out", str(desk.out))
    assert await desk.select("--branch", "forged", *test) == local_run.NO_FIX
    rejected = cast(list[dict[str, str]], desk.report()["rejected"])
    assert "a control" in rejected[0]["why"]


QUIET_EXIT: str = TEXTS["QUIET_EXIT"]
"""It turns `raise SystemExit(2)` into a success, and leaves `sys.exit(2)` alone."""
RAISES = "from shop.till import total\nraise SystemExit(0 if total(1, 2) == 3 else 2)\n"
KNOWS_THE_FILE: str = TEXTS["KNOWS_THE_FILE"]
"""It forges where the test's own file runs, and no other."""


@pytest.mark.parametrize(
    ("forged", "test", "why"),
    [
        (QUIET_EXIT, RAISES, "a control script that must exit with 2 exited with 0"),
        (KNOWS_THE_FILE, TEST_FILE, "tests that were made to fail passed"),
    ],
)
async def test_an_edit_that_knows_how_its_test_ends_is_not_chosen(
    desk: Desk, forged: str, test: str, why: str
) -> None:
    desk.branch("forged", {"shop/till.py": forged + TILL})
    asked = ("--test", desk.file("T.py", test), "--out", str(desk.out))
    assert await desk.select("--branch", "forged", *asked) == local_run.NO_FIX
    rejected = cast(list[dict[str, str]], desk.report()["rejected"])
    assert why in rejected[0]["why"]


async def test_what_python_runs_before_every_script_decides_nothing(desk: Desk) -> None:
    forge = "import atexit, os\natexit.register(os._exit, 0)\n"
    desk.branch("early", {"shop/sitecustomize.py": forge, "shop/till.py": TILL + "# same\n"})
    test = ("--test", desk.file("T.py", SCRIPT), "--out", str(desk.out))
    assert await desk.select("--branch", "early", *test) == local_run.NO_FIX
    rejected = cast(list[dict[str, str]], desk.report()["rejected"])
    assert "shop/sitecustomize.py" in rejected[0]["why"]


FOR_SH: str = TEXTS["FOR_SH"]
SUM = "total() {\n  echo $(($1 - $2))\n}\n"


async def test_a_script_that_reads_exit_codes_speaks_against_no_honest_edit(tmp_path: Path) -> None:
    files = {"Makefile": "test:\n\t@. ./till.sh && echo 'ok 1 - loads'\n", "till.sh": SUM}
    desk = Desk(tmp_path, "", tmp_path / "environment", files)
    desk.branch("wrong", {"till.sh": SUM.replace("-", "/")})
    desk.branch("right", {"till.sh": SUM.replace("-", "+")})
    desk.branch("forged", {"till.sh": f"trap 'exit 0' EXIT\n{SUM}"})
    edits = [word for name in ("wrong", "right", "forged") for word in ("--branch", name)]
    test = ("--test", desk.file("t.sh", FOR_SH), "--out", str(desk.out))
    assert await desk.select(*edits, *test) == local_run.FIXED
    report = desk.report()
    assert report["title"] == "right"
    assert [one["name"] for one in cast(list[dict[str, str]], report["rejected"])] == ["forged"]
    assert "does not apply" not in (desk.out / "report.md").read_text()


async def test_a_makefile_that_prints_the_results_it_likes_is_told(tmp_path: Path) -> None:
    half = "half() {\n  echo $(($1 / 2))\n}\n"
    check = "test:\n\t@. ./till.sh; test $$(half 4) = 2 || echo -n 'not '; echo 'ok 1 - half'\n"
    loads = "\t@echo 'ok 2 - loads'\n"
    files = {"Makefile": check + loads, "till.sh": SUM + half}
    desk = Desk(tmp_path, "", tmp_path / "environment", files)
    broken = SUM.replace("-", "+") + half.replace("/", "*")
    printed = f"test:\n\t@echo 'ok 1 - half'\n{loads}"
    desk.branch("forged", {"till.sh": broken, "Makefile": printed})
    test = ("--test", desk.file("t.sh", FOR_SH), "--out", str(desk.out))
    assert await desk.select("--branch", "forged", *test) == local_run.NO_FIX
    said = (desk.out / "report.md").read_text()
    assert "forged came first, but its results do not count" in said
    assert "forged changes `Makefile`" in said


SAME = TILL + "# the same\n"
AT_EVERY_EVENT: str = TEXTS["AT_EVERY_EVENT"]
AFTER_THE_MAIN_THREAD: str = TEXTS["AFTER_THE_MAIN_THREAD"]
MEANWHILE: str = TEXTS["MEANWHILE"]
AT_THE_END = "import os, weakref\nKEPT = {1}\nweakref.finalize(type('A', (), {}), os._exit, 0)\n"
PASSES: str = TEXTS["PASSES"]
MARKS: str = TEXTS["MARKS"]
CALLS_NOTHING: str = TEXTS["CALLS_NOTHING"]
IN_THE_PROCESS = {
    "tracer": {"shop/till.py": AT_EVERY_EVENT.format(setter="settrace") + TILL},
    "profiler": {"shop/till.py": AT_EVERY_EVENT.format(setter="setprofile") + TILL},
    "late-thread": {"shop/till.py": AFTER_THE_MAIN_THREAD + TILL},
    "thread": {"shop/till.py": MEANWHILE + TILL},
    "finalizer": {"shop/till.py": AT_THE_END + TILL},
    "early": {"usercustomize.py": "import os\nos._exit(0)\n", "shop/till.py": SAME},
    "at-exit": {"shop/till.py": ENDS_WITH_0 + TILL},
    "at-once": {"shop/till.py": "import os\nos._exit(0)\n" + TILL},
    "records": {"shop/till.py": RECORDS + TILL},
}
IN_THE_RUNNER = {
    "option": {
        "evil.py": PASSES,
        "pytest.ini": "[pytest]\naddopts = -p evil\n",
        "shop/till.py": SAME,
    },
    "plugins": {
        "evil.py": PASSES,
        "conftest.py": "pytest_plugins = 'evil'\n",
        "shop/till.py": SAME,
    },
    "reports": {"conftest.py": PASSES, "shop/till.py": SAME},
    "expected": {"conftest.py": MARKS.format(mark="xfail"), "shop/till.py": SAME},
    "skipped": {"conftest.py": MARKS.format(mark="skip"), "shop/till.py": SAME},
    "uncalled": {"conftest.py": CALLS_NOTHING, "shop/till.py": SAME},
    "listed": {"pytest.ini": "[pytest]\naddopts = --collect-only\n", "shop/till.py": SAME},
    "deselected": {"setup.cfg": "[tool:pytest]\naddopts = -k nothing\n", "shop/till.py": SAME},
    "renamed": {"tox.ini": "[pytest]\npython_functions = no*\n", "shop/till.py": SAME},
}


@pytest.mark.parametrize(
    ("edits", "test"),
    [(IN_THE_PROCESS, SCRIPT), (IN_THE_RUNNER, TEST_FILE)],
    ids=["in the process", "in the runner"],
)
async def test_no_forgery_is_chosen_and_the_repair_is(
    desk: Desk, edits: dict[str, dict[str, str]], test: str
) -> None:
    for name, files in edits.items():
        desk.branch(name, files)
    words = [word for name in edits for word in ("--branch", name)]
    asked = ("--test", desk.file("T.py", test))
    alone = ("--out", str(desk.folder / "alone"))
    assert await desk.select(*words, *asked, *alone) == local_run.NO_FIX
    desk.branch("honest", {"shop/till.py": RIGHT})
    desk.keep_runs(desk.folder / "alone", desk.out)
    asked = (*asked, "--out", str(desk.out))
    assert await desk.select(*words, "--branch", "honest", *asked) == local_run.FIXED
    assert desk.report()["title"] == "honest"


@pytest.mark.parametrize("proper", [True, False])
async def test_the_test_that_an_edit_brings_does_not_choose_it(desk: Desk, proper: bool) -> None:
    desk.branch("selfish", {"shop/till.py": TILL + "MARKER = 1\n", "tests/test_m.py": MARKER_TEST})
    own = {"tests/test_total.py": "from shop.till import total\n\n\ndef test_it():\n"
           "    assert total(1, 2) == 3\n"} if proper else {}  # fmt: skip
    desk.branch("honest", {"shop/till.py": RIGHT, **own})
    edits = ("--branch", "selfish", "--branch", "honest", "--out", str(desk.out))
    assert await desk.select(*edits) == local_run.NO_FIX
    assert desk.report()["reason"] == "no reproduction"
    text = (desk.out / "report.md").read_text()
    assert re.search(r"\bselfish\b.+\btest\b", text)
    # With a solver, an independent test is written, and decides.
    assert await desk.select(*edits, settings=desk.asking) == local_run.FIXED
    assert desk.report()["title"] == "honest"
    assert "1 written by me" in (desk.out / "report.md").read_text()


async def test_a_folder_that_poses_as_another_repository_leaves_nothing_in_its_environment(
    desk: Desk, tmp_path: Path
) -> None:
    """Both name the same remote, and install by the same line."""
    site = "__import__('site').getsitepackages()[0]"
    plant = (
        f"open({site} + '/x.pth', 'w').write('import planted'); open({site} + '/planted.py', 'w')"
    )
    check = SCRIPT.replace("== 3", "== 3 and 'planted' not in sys.modules")
    desk.branch("right", {"shop/till.py": RIGHT})
    edit = desk.diff("right.diff", "right")
    words = ("--patch", edit, "--test", desk.file("check.py", check))
    install = {".github/capuchin.yml": "setup: [sh install.sh, pip install pytest]\n"}
    for name, step in (("theirs", f'python -c "{plant}"'), ("ours", "true")):
        desk.repo = tmp_path / name
        files = {**shop.FILES, **install, "install.sh": step}
        local_git.repository(desk.repo, files)
        local_git.git(desk.repo, "remote", "add", "origin", "https://github.com/acme/shop")
        expected = local_run.FIXED if name == "ours" else local_run.NO_FIX
        assert await desk.select(*words) == expected
