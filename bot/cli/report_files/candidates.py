"""The edits of a run as files, by their letters: `candidates/A.diff` is the chosen or best one."""

from __future__ import annotations

from typing import Final

from pipeline.selection.letters import get_votes, rank_result, to_letter
from pipeline.types import NoFix, Selection

FOLDER: Final = "candidates"


def candidate_files(result: Selection | NoFix) -> dict[str, bytes]:
    """The diffs by their paths below `--out`; empty when no edit was judged."""
    votes = get_votes(result)
    if votes is None:
        return {}
    return {
        f"{FOLDER}/{to_letter(rank)}.diff": votes.candidates[at].patch.diff.encode()
        for rank, at in enumerate(rank_result(result))
    }
