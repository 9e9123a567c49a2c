"""`capuchin select` over hostile edits: what an edit says of itself decides nothing."""

from __future__ import annotations

import re
from typing import cast

import pytest

from bot.cli import local_run
from tests.e2e.cli.desk import RIGHT, SCRIPT, TEST_FILE, TILL, Desk

ENDS_WITH_0 = "import atexit, os\natexit.register(os._exit, 0)\n"
ENDS_AT_ONCE = "import os\nos._exit(0)\n"
RECORDS = """\
import os, sys
if any("pytest" in word for word in sys.argv):
    os._exit(0)
"""
MARKER_TEST = "import shop.till\n\n\ndef test_marker():\n    assert shop.till.MARKER == 1\n"


@pytest.mark.parametrize("forged", [ENDS_WITH_0, ENDS_AT_ONCE, RECORDS])
async def test_an_edit_that_ends_the_interpreter_does_not_beat_the_repair(
    desk: Desk, forged: str
) -> None:
    desk.branch("forged", {"shop/till.py": forged + TILL})
    desk.branch("honest", {"shop/till.py": RIGHT})
    test = ("--test", desk.file("T.py", SCRIPT), "--out", str(desk.out))
    assert await desk.select("--branch", "forged", "--branch", "honest", *test) == local_run.FIXED
    report = desk.report()
    assert report["title"] == "honest"
    text = (desk.out / "report.md").read_text()
    assert "`os._exit`" in text or "`atexit`" in text
    assert "process" in text


async def test_an_edit_that_forges_alone_is_not_chosen(desk: Desk) -> None:
    desk.branch("forged", {"conftest.py": RECORDS, "shop/till.py": ENDS_WITH_0 + TILL})
    test = ("--test", desk.file("T.py", SCRIPT), "--out", str(desk.out))
    assert await desk.select("--branch", "forged", *test) == local_run.NO_FIX
    rejected = cast(list[dict[str, str]], desk.report()["rejected"])
    assert "a control" in rejected[0]["why"]


QUIET_EXIT = """\
import builtins


class Quiet(SystemExit):
    def __init__(self, code=0):
        super().__init__(0)
        self.code = 0


builtins.SystemExit = Quiet
"""
"""It turns `raise SystemExit(2)` into a success, and leaves `sys.exit(2)` alone."""
RAISES = "from shop.till import total\nraise SystemExit(0 if total(1, 2) == 3 else 2)\n"
KNOWS_THE_FILE = """\
import os, sys
if any("test_t" in word.lower() for word in sys.argv):
    os._exit(0)
"""
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


SAME = TILL + "# the same\n"
AT_EVERY_EVENT = """\
import os, sys


def look(frame, event, argument):
    if event in ("call", "c_call") and "exit" in str(argument) + frame.f_code.co_name:
        os._exit(0)
    return look


sys.{setter}(look)
"""
AFTER_THE_MAIN_THREAD = """\
import os, threading


def wait():
    threading.main_thread().join()
    os._exit(0)


threading.Thread(target=wait).start()
"""
MEANWHILE = """\
import os, threading, time
threading.Thread(target=lambda: (time.sleep(0.05), os._exit(0)), daemon=True).start()
time.sleep(0.2)
"""
AT_THE_END = "import os, weakref\nKEPT = {1}\nweakref.finalize(type('A', (), {}), os._exit, 0)\n"
PASSES = """\
import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = "passed"
"""
MARKS = """\
import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.{mark})
"""
CALLS_NOTHING = """\
import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    return True
"""
IN_THE_PROCESS = {
    "tracer": {"shop/till.py": AT_EVERY_EVENT.format(setter="settrace") + TILL},
    "profiler": {"shop/till.py": AT_EVERY_EVENT.format(setter="setprofile") + TILL},
    "late-thread": {"shop/till.py": AFTER_THE_MAIN_THREAD + TILL},
    "thread": {"shop/till.py": MEANWHILE + TILL},
    "finalizer": {"shop/till.py": AT_THE_END + TILL},
    "early": {"usercustomize.py": "import os\nos._exit(0)\n", "shop/till.py": SAME},
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
