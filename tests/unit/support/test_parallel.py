"""How processes share the tests, also when one of them ends too early."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.support.parallel import FileScheduling
from tests.support.texts import texts_of

ROOT = Path(__file__).parents[3]
CONFTEST = """\
from tests.support.parallel import FileScheduling

def pytest_xdist_make_scheduler(config, log):
    return FileScheduling(config, log)
"""
ONE = "def test_{0}():\n    pass\n"
CRASHES = "import os\n\ndef test_crashes():\n    os._exit(3)\n\ndef test_after():\n    pass\n"
TEXTS = texts_of(__file__)
ENDS: str = TEXTS["ENDS"]


def run(folder: Path, processes: int, files: dict[str, str]) -> str:
    for name, text in {"conftest.py": CONFTEST, **files}.items():
        (folder / name).write_text(text)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", str(processes), "-p", "no:cacheprovider"],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return ended.stdout + ended.stderr


def test_a_test_that_ends_its_process_fails_once_and_the_others_run(tmp_path: Path) -> None:
    singles = {f"test_{name}.py": ONE.format(name) for name in "bcde"}
    text = run(tmp_path, 1, {"test_a.py": CRASHES, **singles})
    assert "1 failed, 5 passed" in text, text


def test_what_a_process_leaves_at_an_early_end_is_run_by_another(tmp_path: Path) -> None:
    others = {
        f"test_{name}.py": "import time\n\n"
        + "".join(f"def test_{n}():\n    time.sleep(0.5)\n\n" for n in range(4))
        for name in "bcde"
    }
    text = run(tmp_path, 2, {"test_a.py": ENDS, **others})
    assert "20 passed" in text, text
    assert "INTERNALERROR" not in text, text


class CrashedNode:
    """A process whose connection breaks after its first file."""

    shutting_down = False

    def __init__(self) -> None:
        self.sent = 0

    def send_runtest_some(self, _tests: list[int]) -> None:
        self.sent += 1
        if self.sent > 1:
            raise OSError("cannot send (already closed?)")


def test_what_cannot_be_sent_to_a_crashed_process_is_left_for_another() -> None:
    option = SimpleNamespace(tx=["popen"], px=None, maxprocesses=None)
    config: Any = SimpleNamespace(option=option, getvalue=vars(option).get)
    node: Any = CrashedNode()
    scheduling = FileScheduling(config, None)
    scheduling.add_node(node)
    scheduling.add_node_collection(node, ["a.py::x", "a.py::y", "b.py::z", "c.py::z"])
    scheduling.schedule()
    assert scheduling.remove_node(node) == "a.py::x"
    left = [
        test for unit in scheduling.workqueue.values() for test, done in unit.items() if not done
    ]
    assert sorted(left) == ["a.py::y", "b.py::z", "c.py::z"]
