"""What a command leaves: its execution, and the checkout as it is then."""

from __future__ import annotations

from sandbox.base import Execution
from sandbox.frozen import Frozen


class Change(Frozen):
    """What a command did to one path of its checkout."""

    path: str
    """Relative to the checkout; bytes that are not UTF-8 as escapes. Untrusted."""
    content: bytes | None = None
    """None for a deleted file; the target of a link."""
    mode: str = "100644"
    """git's: `100644`, `100755` or `120000` (a link)."""
    was_there: bool = False
    """Whether the installed tree, without any edit, has the path."""


class CommandRun(Execution):
    """A command's execution, and the checkout it left."""

    changes: tuple[Change, ...] | None = None
    """Everything that differs from the unedited tree, the edits it ran on included; compiled
    Python and the folders of caches are left out. None if it is not known (see `lost`): only a
    program that exits by itself leaves changes, and within limits. The checkout is read when all
    of its processes have ended (`sandbox.guest.supervisor.capture`)."""
    lost: str = ""
    """Why `changes` are not known, as a sentence."""
