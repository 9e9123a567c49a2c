"""Temporary folders, recognised by name and in use while a lock is held.

The lock is of the folder itself: a lock file in it would be among the files of its user.
"""

import fcntl
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PREFIX: Final = "capuchin-"
PROCESS_FILE: Final = "process"
"""A file in such a folder: the id of a process that was started with a path below it."""


@contextmanager
def scratch_folder(kind: str, folder: Path | None = None) -> Generator[Path]:
    """A new folder in `folder` or the system's temporary folder; removed when the block ends.

    `remove_stale` removes what a killed process leaves.
    """
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{kind}-", dir=folder) as name:
        held = lock_folder(Path(name))
        try:
            yield Path(name)
        finally:
            os.close(held)


def lock_folder(folder: Path) -> int:
    """A descriptor whose lock marks `folder` as in use as long as it is open."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


def remove_stale(folders: Iterable[Path], *, young_seconds: float = 60) -> int:
    """Remove our folders in `folders` that belong to this user and no process holds; how many.

    One that is younger than `young_seconds` may not be locked yet.
    """
    found = {path for folder in folders for path in folder.glob(f"{PREFIX}*")}
    return sum(_remove_if_stale(path, young_seconds) for path in sorted(found))


def _remove_if_stale(path: Path, young_seconds: float) -> bool:
    try:
        facts = path.lstat()
        if facts.st_uid != os.getuid() or time.time() - facts.st_mtime < young_seconds:
            return False
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False  # a file, a link, or gone
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        _kill_program(path)
        shutil.rmtree(path, ignore_errors=True)
        return not path.exists()
    finally:
        os.close(handle)


def _kill_program(folder: Path) -> None:
    """Kill the process that the file in `folder` names, if its command line mentions `folder`."""
    try:
        process = int((folder / PROCESS_FILE).read_text())
        command_line = Path(f"/proc/{process}/cmdline").read_bytes()
        if f"{folder}/".encode() in command_line:
            os.kill(process, signal.SIGKILL)
    except (OSError, ValueError):
        return
