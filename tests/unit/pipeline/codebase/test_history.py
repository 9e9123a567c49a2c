from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.codebase.commit import read_log
from pipeline.codebase.git import GitFailed
from tests.support.data.repositories import make_codebase


async def test_a_log_is_read_once(tmp_path: Path) -> None:
    codebase = await make_codebase(tmp_path / "repo.git", {"a.py": "x = 1\n", "b.py": ""})
    log = await read_log(codebase, "--format=%H", "--name-only", paths=["a.py"])
    assert log.split() == [codebase.commit.encode(), b"a.py"]
    (tmp_path / "repo.git").rename(tmp_path / "gone.git")
    assert await read_log(codebase, "--format=%H", "--name-only", paths=["a.py"]) == log
    with pytest.raises(GitFailed):
        await read_log(codebase, "--format=%H", "--name-only")
