"""The clock of git."""

import asyncio
from pathlib import Path

import pytest

from pipeline.codebase.git import GitTooSlow, git
from pipeline.context.files import filters
from pipeline.edits import captured
from pipeline.edits.read import ParsedEdit
from pipeline.replies import Malformed
from sandbox.program import Change
from tests.support.data.repositories import make_codebase

SLOW = "/".join(["*a*a*a*a*"] * 12)
LONG = "/".join(["a" * 16] * 12)
"""git before 2.40 matches the two in exponential time."""


async def test_patterns_of_a_repository_end_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (filters, captured):
        monkeypatch.setattr(module, "PATTERN_SECONDS", 1)
    codebase = await make_codebase(
        tmp_path / "r.git",
        {
            ".gitattributes": f"{SLOW}/b linguist-generated\n*.c linguist-generated\n",
            ".gitignore": f"{SLOW}/b\n",
            f"{LONG}/x.py": "x = 1\n",
        },
    )
    async with asyncio.timeout(60):
        attributes = await filters.read_attributes(codebase, list(codebase.files.values()))
        new = Change(path=f"{LONG}/y.py", content=b"y = 1\n")
        edit = await captured.read_captured([new], codebase)
    assert not attributes
    assert isinstance(edit, Malformed | ParsedEdit)
    with pytest.raises(GitTooSlow):
        await git(codebase.git_dir, "wait", config=["alias.wait=!sleep 60"], seconds=0)
