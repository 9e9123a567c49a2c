"""A parser over a stranger's text has no key to give away and cannot take the machine down."""

from __future__ import annotations

import json

import pytest

from pipeline.codebase.isolated import run_isolated

_TELL = "import json, os, sys; print(json.dumps([dict(os.environ), sys.stdin.read(), sys.path]))"


async def test_nothing_of_our_environment_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a secret")
    environment, text, path = json.loads(await run_isolated(_TELL, b"hello", seconds=120))
    assert "a secret" not in environment.values()
    assert text == "hello"
    assert not [folder for folder in path if "site-packages" in folder]


@pytest.mark.parametrize(
    "program",
    ["x = bytearray(64 * 1024**3)", "import time; time.sleep(60)", "import os; os.abort()"],
)
async def test_one_that_takes_too_much_says_nothing(program: str) -> None:
    assert await run_isolated(program, b"", seconds=1) == b""
