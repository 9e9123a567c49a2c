from pathlib import Path

import pytest

from pipeline.codebase.git import GitFailed
from pipeline.edits.patches import create_patch
from tests.support.data.repositories import make_codebase


async def test_equal_changes_are_turned_into_a_patch_once(tmp_path: Path) -> None:
    codebase = await make_codebase(tmp_path / "repo.git", {"a.py": "x = 1\n"})
    changes: dict[str, bytes | None] = {"a.py": b"x = 2\n"}
    patch = await create_patch(codebase, changes)
    assert "+x = 2" in patch.diff
    (tmp_path / "repo.git").rename(tmp_path / "gone.git")
    assert await create_patch(codebase, changes) == patch
    for other, modes in (({"a.py": b"x = 3\n"}, {}), ({"b.py": b"x = 2\n"}, {"b.py": "100755"})):
        with pytest.raises(GitFailed):
            await create_patch(codebase, other, modes)
