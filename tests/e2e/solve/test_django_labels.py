"""The reproduction test of a repository whose own script runs Django's test runner by labels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bot.cli import local_run
from capuchin_demo.recorded.recording import RecordedAnswer
from capuchin_demo.recorded.server import RecordedServer
from tests.e2e import shop
from tests.e2e.cli.local_fix import LocalFix

REQUIREMENTS = """\
django==4.2.16 --hash=sha256:1ddc333a16fc139fd253035a1606bb24261951bbc3a6ca256717fa06cc41a898
asgiref==3.8.1 --hash=sha256:3e1e3ecc849832fe52ccf2cb6686b7a55f82bb1d6aee72a58826471390335e47
sqlparse==0.5.1 --hash=sha256:773dcbf9a5ab44a090f3441e2180efe2560220203dc2f8c0b0fa141e18b505e4
"""
RUNTESTS = """\
#!/usr/bin/env python
import argparse
import os
import sys

import django
from django.conf import settings
from django.test.utils import get_runner

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the test suite.")
    parser.add_argument("modules", nargs="*", metavar="module")
    parser.add_argument("-v", "--verbosity", default=1, type=int)
    parser.add_argument("--parallel", default=0, type=int)
    parser.add_argument("-k", dest="test_name_patterns", action="append")
    options = parser.parse_args()
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    databases = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
    settings.configure(DATABASES=databases, INSTALLED_APPS=["till"], USE_TZ=True)
    django.setup()
    runner = get_runner(settings)(
        verbosity=options.verbosity,
        parallel=options.parallel,
        test_name_patterns=options.test_name_patterns,
    )
    sys.exit(bool(runner.run_tests(options.modules or ["till"])))
"""
CASE = """\
from django.test import SimpleTestCase

from shop.till import count, total


class TillTests(SimpleTestCase):
    def test_count(self):
        self.assertEqual(count([1]), 1)
"""
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
