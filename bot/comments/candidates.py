"""Replies to `judge` and `use`, which choose among existing edits."""

from __future__ import annotations

from typing import Final, NamedTuple

from bot.comments.status import render_status
from bot.markdown import block, code, details, prose
from bot.types import Run
from pipeline.codebase.text import pluralize
from pipeline.selection.letters import get_votes, rank_result, to_letter
from pipeline.types import NoFix, Reproduction, Selection, TestOutcome, read_test_outcome
from sandbox.base import Execution

MAX_LISTED: Final = 20
_LOG_CHARACTERS: Final = 4000
_OUTCOMES: Final[dict[TestOutcome | None, str]] = {
    "passes": "",
    "fails": ", but fails the reproduction test",
    "not run": ", but the reproduction test could not be run with it",
    None: "",
}


class PullCandidates(NamedTuple):
    """The edits of a run, and which of them its pull request `pull` holds."""

    result: Selection | NoFix
    pull: int | None
    """None after a run without a fix."""
    current: int | None
    """Its rank, from 1; None if the branch holds something else."""


def list_candidates(result: Selection | NoFix, place: int | None = None) -> str:
    """The edits as `use` names them; the one at rank `place`, from 1, is in the pull request."""
    votes = get_votes(result)
    if votes is None:
        return ""
    known = result.evidence.reproduced if isinstance(result, Selection) else ()
    outcomes = known or (None,) * len(votes.candidates)
    rows = (
        f"- **{to_letter(rank)}** passes {votes.votes(c)} of "
        f"{pluralize(len(votes.tests), 'script')}{_OUTCOMES[outcomes[c]]}"
        + (" (in the pull request)" if rank + 1 == place else "")
        for rank, c in enumerate(rank_result(result)[:MAX_LISTED])
    )
    return "\n".join(rows)


def which_candidate(name: str, candidates: PullCandidates) -> str:
    """To `use` without the number of an existing edit."""
    return f"Please name one of my edits by its letter. {_listing(name, candidates)}"


def letters_instead(name: str, candidates: PullCandidates) -> str:
    """To `use` with a number."""
    return f"My edits have letters, not numbers. {_listing(name, candidates)}"


def candidates_reply(name: str, candidates: PullCandidates) -> str:
    """To `explain`: the edits that `use` can put into the pull request."""
    return _listing(name, candidates)


def _listing(name: str, candidates: PullCandidates) -> str:
    count = len(rank_result(candidates.result))
    if candidates.pull is None:
        return (
            f"These are my edits, best first; none is proven. `/{name} use A` opens an unproven "
            f"draft with the first:\n\n{list_candidates(candidates.result)}"
        )
    return (
        f"These are my edits for #{candidates.pull}, best first; for example, `/{name} use "
        f"{to_letter(min(2, count) - 1)}` puts {to_letter(min(2, count) - 1)} into it:\n\n"
        f"{list_candidates(candidates.result, candidates.current)}"
    )


def nothing_to_use() -> str:
    """To `use` where we have no edits."""
    return (
        "I have no edits for this: in the last 30 days I neither opened a pull request for it nor "
        "wrote an edit that I could show."
    )


def candidates_expired(number: int | None) -> str:
    """To `use` when the run is known, but its edits have expired."""
    return f"I no longer have the other edits{f' for #{number}' if number else ''}."


def answer_on_issue(issue: int) -> str:
    """To `use` on the pull request: where the result will appear."""
    return f"I will post the result on #{issue}."


def which_pulls(name: str, most: int) -> str:
    """To `judge` without pull requests, or with too many."""
    return f"Please name the pull requests (at most {most}), as in `/{name} judge #12 #34`."


def render_swap(run: Run, number: int, selection: Selection) -> str:
    """The status comment after another edit was put into the pull request."""
    proof = selection.evidence
    test = {
        "passes": "The reproduction test passes with it and stays.",
        "fails": "The reproduction test fails with it, so I removed the test.",
        "not run": "The reproduction test could not be run with it, so I removed the test.",
    }[read_test_outcome(proof.reproduction.after)]
    if not proof.reproduction.is_committed:
        test = "It is still unproven."
    broken = len(proof.suite.broken) if proof.suite else 0
    breakage = _breakage_sentence(broken)
    return render_status(
        run,
        f"As @{run.asked_by} asked, #{number} now holds edit {to_letter(run.candidate - 1)}. "
        f"{test}{breakage}",
    )


def _breakage_sentence(number: int) -> str:
    if not number:
        return ""
    verb = "passes" if number == 1 else "pass"
    return f" {pluralize(number, 'test')} of this repository {verb} without it but not with it."


def render_no_swap(run: Run, why: str) -> str:
    """The status comment when the pull request stays unchanged; `why` is one of the texts below."""
    return render_status(run, f"I left the pull request unchanged. {why}")


def run_expired() -> str:
    """The run has expired."""
    return "I no longer have the run that opened the pull request."


def edits_expired() -> str:
    """The run is known, but its edits have expired."""
    return "I no longer have the edits of that run."


def pull_not_open(number: int) -> str:
    """The pull request was closed or merged."""
    return f"#{number} is no longer open."


def no_such_candidate(place: int) -> str:
    """The run has fewer edits; `place` is a rank, from 1."""
    return f"I have no edit {to_letter(place - 1)} for it."


def already_current(number: int, place: int) -> str:
    """The pull request already holds that edit; `place` is its rank, from 1."""
    return f"#{number} already holds edit {to_letter(place - 1)}."


def fails_reproduction(name: str, letter: str, test: Reproduction, after: Execution) -> str:
    """The edit does not pass the reproduction test; `after` is that run."""
    path = code(test.path) if test.is_committed else "(the script alone)"
    why = {
        "fails": f"Edit {letter} fails the reproduction test {path}.",
        "not run": f"With edit {letter}, the reproduction test {path} could not be run.",
    }[read_test_outcome(after)]
    log = details("What it printed", block(after.output, _LOG_CHARACTERS))
    return (
        f"{why} `/{name} use {letter} anyway` takes the edit all the same, without the test."
        f"\n\n{log}"
    )


def review_in_between(number: int) -> str:
    """The branch holds changes made after a review."""
    return (
        f"I have since changed #{number} in response to a review, and another edit would undo "
        "that. Please request the change that you want in a review."
    )


def foreign_push(number: int) -> str:
    """The branch holds a person's commit."""
    return (
        f"Somebody else has pushed to the branch of #{number}, and I do not overwrite their work."
    )


def push_forbidden(why: str) -> str:
    """The edit changes a forbidden path; `why` is an untrusted sentence without its full stop."""
    return f"I am not allowed to push that edit: {prose(why, 600)}."


def push_rejected(number: int) -> str:
    """GitHub rejected the push."""
    return f"The branch of #{number} has moved, or its rules forbid the push."
