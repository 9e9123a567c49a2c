"""What an exploring machine knows: its messages and its diff; no container is kept."""

from __future__ import annotations

from pipeline.generation.editing import EditingState
from pipeline.types import Patch


class ExploringState(EditingState):
    """Saved under the key of an editing machine, whose result it has as well."""

    machine: str = "explore"
    diff: str = ""
    """The edit so far, from the unedited code; every command runs in a fresh checkout with it."""
    action: str = ""
    """The tag of the newest well-formed reply."""
    text: str = ""
    """Its body."""
    refused: str = ""
    """Why the newest command's changes were not taken over, as a sentence; empty if they were."""
    submitted: str = ""
    """The diff that was submitted and checked last: submitting it again ends the machine."""

    def take(self, diff: str) -> None:
        """Continue with `diff`. The candidate stays the last edit that changes anything."""
        self.diff = diff
        if diff and (not self.patches or self.patches[-1].diff != diff):
            self.patches.append(Patch(diff=diff))
            self.edited, self.broken = [], []  # they were found with another edit
