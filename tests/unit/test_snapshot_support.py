"""A text that is no longer what its file holds is told by the lines that differ."""

from pathlib import Path

import pytest

from tests.support import snapshots


def test_the_lines_that_differ_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "FOLDER", tmp_path)
    (tmp_path / "a.txt").write_text("same\nold\n")
    with pytest.raises(AssertionError, match=r"(?s)^--- a.txt.*\n same\n-old\n\+new\n.*delete"):
        snapshots.assert_snapshot("a", "same\nnew\n")
    snapshots.assert_snapshot("a", "same\nold\n")
