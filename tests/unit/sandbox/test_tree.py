from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from sandbox.tree import Tree, tree_of_directory


def test_a_directory_becomes_its_files_links_and_modes(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/a.py").write_text("a")
    (tmp_path / "run.sh").write_text("b")
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "link").symlink_to("pkg")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    tree = tree_of_directory(tmp_path)
    with tarfile.open(fileobj=io.BytesIO(tree.tar)) as archive:
        found = {m.name: (m.mode, m.linkname, m.uid) for m in archive}
    assert found == {
        "link": (0o755, "pkg", 0),
        "pkg/a.py": (0o644, "", 0),
        "run.sh": (0o755, "", 0),
    }


def test_the_same_files_have_the_same_digest_whatever_their_times(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text("a")
    os.utime(tmp_path / "one/a.py", (1, 1))
    one, two = (tree_of_directory(tmp_path / name) for name in ("one", "two"))
    assert one.digest == two.digest
    (tmp_path / "two/a.py").write_text("b")
    assert tree_of_directory(tmp_path / "two").digest != one.digest


@pytest.mark.parametrize("digest", ["", "xyz", "0" * 39, "0" * 40 + "\n", "0" * 40 + " LABEL"])
def test_a_digest_is_hexadecimal(digest: str) -> None:
    with pytest.raises(ValueError, match="hexadecimal"):
        Tree(tar=b"", digest=digest)
