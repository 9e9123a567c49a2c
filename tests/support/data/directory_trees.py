"""A plain directory as the tree that a sandbox is prepared from."""

import os
import tarfile
import tempfile
from pathlib import Path

from sandbox.tree import Archive, Tree


def tree_of_directory(directory: Path) -> Tree:
    """The tree of a plain directory: regular files, symbolic links and modes; no `.git`.

    The same files give the same digest, whatever their times and owners.
    """
    with (
        tempfile.TemporaryFile() as file,
        tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in sorted(_walk(directory)):
            member = archive.gettarinfo(path, arcname=path.relative_to(directory).as_posix())
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime = 0
            member.mode = 0o755 if member.mode & 0o100 else 0o644
            if member.isreg():
                with path.open("rb") as source:
                    archive.addfile(member, source)
            else:
                archive.addfile(member)
        archive.close()
        tar = Archive(file)
    return Tree(tar=tar, digest=tar.sha256())


def _walk(directory: Path) -> list[Path]:
    found: list[Path] = []
    for folder, folders, files in os.walk(directory):
        folders[:] = [name for name in folders if name != ".git"]
        here = Path(folder)
        links = [here / name for name in folders if (here / name).is_symlink()]
        found += links
        found += [p for name in files if (p := here / name).is_symlink() or p.is_file()]
    return found
