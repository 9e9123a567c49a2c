"""A finished edit that is not published: why, what helps, and the edit itself."""

from collections.abc import Mapping
from typing import Final

from bot.data.failure import FailureFacts, PublishProblem
from bot.safe_text import block, code, details, prose
from pipeline.codebase.unified_diff import list_paths, remove_files
from pipeline.data.types import Selection

HAVE_EDIT: Final = "I have an edit, but could not publish it"
_EXEMPT: Final = "Add this App to the bypass list of that rule, or change the rule."
_PROBLEMS: Final[Mapping[PublishProblem, tuple[str, str]]] = {
    "workflows": (
        "the workflow files differ from the default branch's, and I may not push a branch with "
        "other ones",
        "Merge the default branch into it, or bring its workflow files to the default branch.",
    ),
    "signatures": (
        "a rule demands verified signatures, and these commits have none",
        f"{_EXEMPT} Or ask my operator for a key to sign with (`CAPUCHIN_SIGNING_KEY`).",
    ),
    "secrets": (
        "push protection sees a secret in the commits",
        "If it is a false alarm, allow it as GitHub says above.",
    ),
    "branch name": (
        "a rule forbids the name of my branch",
        "Allow this App to push such branches, or set `branch_prefix` in `.github/capuchin.yml`.",
    ),
    "commit message": ("a rule forbids my commit messages", _EXEMPT),
    "author": ("a rule forbids my e-mail address as the author's", _EXEMPT),
    "file size": (
        "a file is larger than GitHub takes",
        "My edits hold no large file: it is in this repository's history. Remove it there.",
    ),
    "large file storage": (
        "the commits name files of Git LFS that GitHub does not have",
        "Push these (`git lfs push --all`), then ask again.",
    ),
    "restricted path": (
        "a rule forbids changes to a file of this edit",
        f"{_EXEMPT} `never_touch` in `.github/capuchin.yml` keeps edits away from such files.",
    ),
    "allow list": (
        "the organisation's IP allow list does not have my address",
        "An owner can add the address of my operator's machine.",
    ),
    "hook": (
        "a hook of this GitHub server refused the push",
        "The server's administrators know what it asks for; rules on GitHub do not show it.",
    ),
    "rule": ("a rule of this repository forbids it", _EXEMPT),
    "archived": ("the repository was archived while I worked", "Unarchive it."),
    "permission": (
        "this App may not write to the repository",
        "Give it write access to contents and pull requests in its installation settings.",
    ),
    "branch moved": ("somebody moved my branch meanwhile", ""),
    "names taken": (
        "every name for the branch is taken",
        "Delete old branches of mine.",
    ),
    "pull request": ("GitHub refused the pull request", _EXEMPT),
    "base gone": (
        "the branch that it would go into is gone",
        "Restore it, or set another default branch.",
    ),
    "commits dropped": (
        "commits were taken out of the default branch by force while I worked, and my edit does "
        "not work without them. I will not publish them again",
        "",
    ),
    "gone": (
        "the repository was deleted, or this App lost its access to it",
        "Give the access back.",
    ),
}
AWAITS_APPROVAL: Final[PublishProblem] = "approval"
_MOST_CHARACTERS: Final = 30_000


def publish_reason(facts: FailureFacts, failed: str = HAVE_EDIT) -> str:
    """Why something is not published, GitHub's words, and what helps; `failed` is what it was."""
    if facts.problem == AWAITS_APPROVAL:
        return (
            "I have an edit, and have pushed nothing: this repository's settings say "
            "`publish: approval`. Read it below first. Once it is pushed, your CI runs it."
        )
    why, advice = _PROBLEMS[facts.problem]
    words = prose(" ".join(facts.words.split()), 600)
    said = f"GitHub says: “{words}”" if words else ""
    return "\n\n".join(filter(None, (f"{failed}: {why}.", said, advice)))


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
        more = f" and {len(paths) - 20} more" if len(paths) > 20 else ""
        names = ", ".join(code(path) for path in paths[:20])
        shown = f"It is too long to be shown in full. It changes {names}{more}.\n\n{shown}"
    return details("The edit", shown)
