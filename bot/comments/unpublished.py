"""A finished edit that is not published: why, what helps, and the edit itself."""

from typing import Final

from bot.data.failure import SENTENCES, FailureFacts, PublishProblem
from bot.safe_text import block, code, details, prose
from pipeline.codebase.unified_diff import list_paths, remove_files
from pipeline.data.types import Selection
from prompts.text import join_names

HAVE_EDIT: Final = "I have an edit, but could not publish it"
AWAITS_APPROVAL: Final[PublishProblem] = "approval"
_MOST_CHARACTERS: Final = 30_000


def publish_reason(facts: FailureFacts, failed: str = HAVE_EDIT) -> str:
    """Why something is not published, GitHub's words, and what helps; `failed` is what it was."""
    if facts.problem == AWAITS_APPROVAL:
        return (
            "I have an edit, and have pushed nothing: this repository's settings say "
            "`publish: approval`. Read it below first. Once it is pushed, your CI runs it."
        )
    row = SENTENCES["unpublished"][facts.problem]
    words = prose(" ".join(facts.words.split()), 600)
    said = f"GitHub says: “{words}”" if words else ""
    return "\n\n".join(filter(None, (f"{failed}: {row['sentence']}.", said, row.get("advice"))))


def list_ways_on(name: str) -> str:
    """How people publish the edit once GitHub takes it; `name` is what commands begin with, empty
    where nobody hears any."""
    if not name:
        return "I keep nothing of this run: take the edit from below; a new label starts anew."
    return (
        f"To publish it, add the label again, or write `/{name} retry` or `/{name} use A`: I take "
        f"this same edit, and ask no model for it. `/{name} retry anyway` starts from scratch."
    )


def list_kept_ways(name: str) -> str:
    """What happens to an edit that a run had when it was stopped; `name`: as in `list_ways_on`."""
    if not name:
        return "I had this edit by then:"
    return (
        "I had an edit by then: I will publish that one, and ask no model for another. "
        f"`/{name} retry anyway` starts from scratch."
    )


def fold_selection(selection: Selection) -> str:
    """The chosen edit, with its test, as a folded section."""
    proof, diff = selection.evidence.reproduction, selection.candidate.patch.diff
    if proof.is_committed:
        diff = proof.diff + remove_files(diff, list_paths(proof.diff))
    return fold_edit(diff)


def fold_edit(diff: str) -> str:
    """The edit as a folded section; of a long one, the ends and the names of its files."""
    shown = block(diff, _MOST_CHARACTERS, "diff")
    if len(diff) > _MOST_CHARACTERS:
        paths = sorted(list_paths(diff))
        names = join_names([code(path) for path in paths], 20)
        shown = f"It is too long to be shown in full. It changes {names}.\n\n{shown}"
    return details("The edit", shown)
