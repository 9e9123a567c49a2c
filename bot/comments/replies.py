"""Replies to commands, and the status comment of a dry run.

Untrusted values are made inert.
"""

from collections.abc import Sequence
from enum import StrEnum

from bot.comments.evidence import estimate_sentence
from bot.comments.failures import failure_reason, no_fix_reason, waiting_sentence
from bot.comments.render import render
from bot.comments.status import (
    omissions_note,
    render_checklist,
    render_status,
    start_words,
    turn_words,
)
from bot.comments.vote_table import fold_votes
from bot.data.progress import Progress
from bot.data.run import QueuePosition, Run, RunStatus
from bot.repo_config.model import LayerProblem
from bot.safe_text import code, prose
from pipeline.data.code_places import Context
from pipeline.data.types import NoFix, Selection
from pipeline.workflows.plan import Plan, price_range
from prompts.text import describe_dollars, pluralize


class Reply(StrEnum):
    """Replies to commands; `{name}` is what commands begin with."""

    WAITS = (
        "I am already working on this issue. I will start on this when that run has ended; "
        "`/{name} stop` stops both."
    )
    NOTHING_TO_STOP = "I am not working on this, so there is nothing to stop."
    NO_RUN = "I have not worked on this issue in the last 30 days. Write `/{name} fix` to start me."
    WRONG_PLACE = "{verb} does not work here. Please write it on the issue."
    FOREIGN_PULL = (
        "I did not open this pull request, or no longer follow it up, so I leave it alone."
    )
    HANDED_OVER = (
        "Somebody else has pushed to this branch, so it is theirs: I do not push to it, and do not "
        "follow reviews here."
    )
    NOT_FOLLOWED = "The settings of this repository leave reviews of my pull requests to people."
    MENTION = (
        "I am here, but understand only commands: `/{name} fix` starts me on an issue, and "
        "`/{name} help` lists the others."
    )
    IN_MID_LINE = (
        "I carry out a command only where it begins a line, outside quotes and code. If you meant "
        "one, write `/{name} {verb}` on a line of its own."
    )
    OTHERS_LEFT = (
        "I carry out one command of a comment. Please write {verbs} in a comment of its own."
    )
    TOO_LATE_TO_HEAR = (
        "I heard this, but am choosing already. `/{name} more` draws samples that know it."
    )
    NO_SAMPLES = (
        "I have no samples to continue from: I keep them for seven days. "
        "`/{name} retry` starts from the beginning."
    )
    ALL_SAMPLES_DRAWN = "I have drawn as many samples as one run may. `/{name} retry` starts anew."
    HOW_MANY_SAMPLES = (
        "Please say how many further samples to draw, from 1 to {left}: `/{name} more 4`."
    )
    NOTHING_TO_RAISE = (
        "I am not working on this. `/{name} more` continues the last run, under a ceiling of its "
        "own."
    )
    CEILING_IS_HIGHEST = "This run may spend ${run:.2f} already, and no more can be allowed here."
    WHICH_CEILING = (
        "Please name an amount in US dollars above ${run:.2f}, up to ${most:.2f}: "
        "`/{name} budget {most:.0f}`."
    )
    CEILING_RAISED = "This run may now spend ${dollars:.2f} at list prices."
    HOW_MANY_DAYS = "Please give a number of days from 1 to {most}, as in `/{name} stats 30`."
    NOTHING_TO_USE = (
        "I have no edits for this: in the last 30 days I neither opened a pull request for it nor "
        "wrote an edit that I could show."
    )
    EDITS_EXPIRED = "I no longer have the other edits."
    PULL_CLOSED = "#{number} is closed, so I leave it as it is. Reopen it, then ask again."
    PULL_MERGED = (
        "#{number} is merged, so I leave it as it is. If the issue is not fixed, reopen it and "
        "add the label again."
    )
    JUDGE_ISSUE = (
        "#{issue} is this issue. Name pull requests that fix it, as in `/{name} judge #12 #34`."
    )
    WHICH_PULLS = "Please name the pull requests (at most {most}), as in `/{name} judge #12 #34`."
    SETTINGS_PROPOSED = (
        "I have proposed a settings file in #{number}. I will not change that pull request."
    )
    NO_COMMITS = (
        "I could not propose a settings file: the repository has no commits yet. Push some code, "
        "then ask again."
    )


def no_such_verb(name: str, verb: str, meant: str | None) -> str:
    hint = f" Did you mean `/{name} {meant}`?" if meant else ""
    return f"I do not know {code(verb, 40)}.{hint} `/{name} help` lists all commands."


def help_text(name: str, slug: str, verbs: Sequence[tuple[str, str]], label: str) -> str:
    """Every verb and the labels. `slug` is the App's name on GitHub, which is heard as well."""
    # A list instead of a table: a phone shows whole sentences.
    rows = "\n".join(f"- `/{name} {verb}`: {does}" for verb, does in verbs)
    return (
        "Begin a line of a comment with one of these commands"
        f"{'' if slug == name else f', or with {code(chr(47) + slug)} in place of the first word'}"
        f".\n\n{rows}\n\n"
        f"The label {code(label)} does the same as `fix`; {code(label + ':auto')} skips the "
        "check whether somebody already works on the issue, and opens the pull request "
        f"ready for review; {code(label + ':dry-run')} does the same as `plan`. "
        "Remove the label or close the issue to stop me."
    )


def run_status(
    run: Run, wait: QueuePosition | None = None, progress: Progress | None = None
) -> str:
    """The state of a run; `wait` if it is queued, `progress` if it is active."""
    page = f" [Details]({run.page_url})." if run.page_url else ""
    spent = f" Cost: {describe_dollars(run.dollars)} at list prices." if run.dollars else ""
    shown = f"\n\n{render_checklist(run, progress)}" if progress else ""
    return f"{_state_sentence(run, wait)}{spent}{page}{shown}\n\n<sub>Run `{run.id}`</sub>"


def render_writes_spent(most: int, at: str) -> str:
    """The notice that the hourly limit of writes is reached; `at` is when they continue."""
    return (
        f"I have written {pluralize(most, 'time')} within an hour in the repositories of this "
        f"owner, which is my limit. Nothing is lost: I will continue at {at}."
    )


def _state_sentence(run: Run, wait: QueuePosition | None) -> str:
    if run.status is RunStatus.QUEUED:
        turn = turn_words(wait) if wait else "queued"
        expected = f" {start_words(wait)}" if wait and wait.expected_seconds else ""
        waits = f" {waiting_sentence(run.waiting_for)}" if run.waiting_for else ""
        return f"The run that @{run.asked_by} requested is {turn}.{expected}{waits}"
    if not run.status.final:
        return f"I am working on it, as @{run.asked_by} asked."
    at = " in" if run.status is RunStatus.SWAPPED else ""
    opened = f"{at} #{run.pull_request}" if run.pull_request else ""
    return (
        f"No run is active. The result of the latest run, requested by @{run.asked_by}: "
        f"{run.status.words}{opened}."
    )


def _read_words(context: Context) -> str:
    """How many files were read, and how many of these the solver was given."""
    chosen = f"{pluralize(len(context.files), 'file')} for the model"
    read = context.findings.read if context.findings else 0
    return f"I read {pluralize(read, 'file')}, chose {chosen}" if read else f"I chose {chosen}"


def run_explanation(run: Run, result: Selection | NoFix | None, edits: str = "") -> str:
    """Why a run ended as it did. `result` is the pipeline's; None if it produced none.

    `edits` lists the edits of this or an earlier run that can be put into a pull request.
    """
    parts = [_state_sentence(run, None)]
    match result:
        case Selection():
            proof = result.evidence
            parts += [
                f"{_read_words(proof.context)} and wrote "
                f"{pluralize(len(proof.votes.candidates) - len(proof.votes.taken_over), 'edit')}. "
                f"{prose(proof.why, 2000)}"
                + (f" {sure}" if (sure := estimate_sentence(result)) else ""),
                fold_votes(result),
            ]
        case NoFix():
            parts.append(f"There was no fix: {no_fix_reason(result.reason)}")
            parts += [f"- {prose(sentence, 600)}" for sentence in result.details[:8]]
        case None:
            if run.failure is not None:
                parts.append(f"Reason: {failure_reason(run.failure, run.facts)}")
    parts += filter(None, (edits, omissions_note(run.skipped)))
    return "\n\n".join(parts) + f"\n\n<sub>Run `{run.id}`</sub>"


def invalid_config(found: LayerProblem) -> str:
    problem = found.problem
    return (
        f"{code(found.source)}, line {problem.line}, is not valid: {prose(problem.message, 600)} "
        "I will not start any work until it is corrected."
    )


def render_plan(run: Run, plan: Plan, earlier: tuple[float, float] | None = None) -> str:
    """The status comment after a dry run; `earlier`: the usual cost of fixes here, in dollars."""
    usual = price_range(*earlier) if earlier else ""
    return render_status(run, render("plan", plan=plan, most_files=15, earlier=usual))
