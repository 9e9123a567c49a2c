import os
import tarfile
import tracemalloc
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from sandbox.tree import Archive, Tree
from tests.support.data.directory_trees import tree_of_directory


@pytest.mark.parametrize("digest", ["", "xyz", "0" * 39, "0" * 40 + "\n", "0" * 40 + " LABEL"])
def test_a_digest_is_hexadecimal(digest: str) -> None:
    with TemporaryFile() as file, pytest.raises(ValueError, match="hexadecimal"):
        Tree(Archive(file), digest=digest)


def test_an_archive_is_read_by_several_at_once_from_any_place() -> None:
    with TemporaryFile() as file:
        file.write(b"0123456789")
        archive = Archive(file)
    with archive.open() as one, archive.open() as other:
        assert one.read(4) == b"0123"
        assert other.read() == b"0123456789"
        assert one.seek(-2, os.SEEK_END) == 8
        assert one.read() == b"89"
    assert archive.size_bytes == 10


def test_a_tree_is_not_held_in_memory(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(30 << 20))
    tracemalloc.start()
    try:
        tree = tree_of_directory(tmp_path)
        with tree.tar.open() as tar, tarfile.open(fileobj=tar) as archive:
            assert [member.size for member in archive] == [30 << 20]
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
