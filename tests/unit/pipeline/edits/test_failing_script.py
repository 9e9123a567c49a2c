"""Test files whose tests are made to fail, run by the real pytest."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pipeline.languages.conventions import Conventions
from pipeline.languages.python.source import build_failing_script, build_test_script
from pipeline.languages.registry import detect_conventions
from tests.support.data.repositories import make_codebase
from tests.support.forked_python import ENVIRONMENT, run_forked

TESTS = {
    "a function": "def test_a():\n    pass\n",
    "an early end": "def test_a():\n    if True:\n        return\n    assert False\n",
    "a skipped test": "import pytest\n\n\ndef test_a():\n    pytest.skip('no')\n",
    "a case": (
        "from __future__ import annotations\nimport unittest\n\n\nclass TestA(unittest.TestCase):\n"
        "    def test_a(self):\n        'It works.'\n        self.assertTrue(True)\n"
    ),
    "parameters": (
        "import pytest\n\n\n@pytest.mark.parametrize('n', [1, 2])\ndef test_a(n):\n    assert n\n"
    ),
}


@pytest.fixture
async def conventions(tmp_path: Path) -> Conventions:
    files = {"tests/test_x.py": "import pytest\n\n\ndef test_x():\n    pass\n"}
    return await detect_conventions(await make_codebase(tmp_path / "repo.git", files))


async def run(text: str, folder: Path) -> int:
    folder.mkdir()
    (folder / "script.py").write_text(text)
    code, _ = await run_forked([sys.executable, "script.py"], folder, 100, ENVIRONMENT)
    return code


@pytest.mark.parametrize("name", TESTS)
async def test_every_test_fails_under_its_own_name(
    tmp_path: Path, conventions: Conventions, name: str
) -> None:
    files = {"tests/test_a.py": TESTS[name].encode(), "tests/data.txt": b"\xff"}
    script, _ = build_test_script(files, conventions)
    assert script is not None
    failing = await build_failing_script(script.text, "nonce")
    assert await run(script.text, tmp_path / "passes") == 0
    assert await run(failing, tmp_path / "fails") == 2
    assert (tmp_path / "fails/tests/data.txt").read_bytes() == b"\xff"


async def test_each_time_they_fail_with_the_nonce_that_is_asked_for(
    tmp_path: Path, conventions: Conventions
) -> None:
    script, _ = build_test_script({"tests/test_a.py": TESTS["a case"].encode()}, conventions)
    assert script is not None
    first, second, again = [
        await build_failing_script(script.text, nonce) for nonce in ("one", "two", "one")
    ]
    assert first == again != second
    for text, nonce in ((first, "one"), (second, "two")):
        assert await run(text, tmp_path / nonce) == 2
        failing = (tmp_path / nonce / "tests/test_a.py").read_text()
        assert failing.count("raise AssertionError") == 1
        assert f"raise AssertionError('{nonce}')" in failing


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sys.exit(0)",
        "given = json.loads('{}')",
        "given = json.loads(((((",
        "given = json.loads(1)",
    ],
)
async def test_other_scripts_have_none(text: str) -> None:
    assert await build_failing_script(text, "nonce") == ""


async def test_what_this_python_cannot_read_has_none(conventions: Conventions) -> None:
    script, _ = build_test_script({"tests/test_a.py": b"def test_a():\n  print 1\n"}, conventions)
    assert script is not None
    assert await build_failing_script(script.text, "nonce") == ""
