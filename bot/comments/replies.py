"""Every sentence the bot says to somebody who commands it. Untrusted values are made inert."""

from __future__ import annotations

from collections.abc import Sequence

from bot.comments.status import (
    LABEL_AGAIN,
    failure_reason,
    no_fix_reason,
    render_status,
    waiting_sentence,
)
from bot.comments.vote_table import render_vote_table
from bot.github.models import ExistingWork
from bot.markdown import block, code, details, prose
from bot.repo_config.layers import LayerProblem
from bot.types import QuotaLimit, Run, RunStatus, SkippedComments
from pipeline.codebase.text import pluralize
from pipeline.types import NoFix, Selection
from pipeline.workflows.plan import Plan

MAX_PLAN_FILES = 15
MAX_REASONS = 8


def reply_marker(request_id: str) -> str:
    """What the answer to one command is found by."""
    return f"<!-- capuchin:reply to={request_id} -->"


def command_waits(name: str) -> str:
    """To a command that comes while a run is under way."""
    return (
        "I am at work on this issue already. I take this up when that has ended; "
        f"`/{name} stop` ends both."
    )


def nothing_to_stop() -> str:
    """To `stop`, when there is nothing to stop."""
    return "I am not working on this, so there is nothing to stop."


def no_run(name: str) -> str:
    """To a question about a run, when there was none."""
    return f"I have not worked on this issue in the last 30 days. `/{name} fix` asks me to."


def no_such_verb(name: str, verb: str, meant: str | None) -> str:
    """To a verb that we do not know."""
    hint = f" Did you mean `/{name} {meant}`?" if meant else ""
    return f"I do not know {code(verb, 40)}.{hint} `/{name} help` lists what I know."


def wrong_place(verb: str) -> str:
    """To a verb that is for issues, said on a pull request or on a line of one."""
    return f"{code(verb, 40)} does not work here. Please say it on the issue."


def foreign_pull() -> str:
    """To a command on a pull request of somebody else."""
    return "This is not a pull request of mine that I still look after, so I leave it alone."


def help_text(name: str, verbs: Sequence[tuple[str, str]], label: str) -> str:
    """Every verb, with the labels."""
    # A list and no table: a phone shows the sentences whole.
    rows = "\n".join(f"- `/{name} {verb}`: {does}" for verb, does in verbs)
    return (
        f"Write one of these at the very beginning of a comment.\n\n{rows}\n\n"
        f"The label {code(label)} is the same as `fix`; {code(label + ':auto')} does not ask back "
        f"and opens the pull request ready for review; {code(label + ':dry-run')} is `plan`. "
        "Taking the label off, or closing the issue, stops me."
    )


def run_status(run: Run, ahead: int) -> str:
    """How a run stands."""
    page = f" [Its page]({run.page_url}) has more." if run.page_url else ""
    spent = f" It has spent ${run.dollars:.2f} at list prices." if run.dollars else ""
    return f"{_state_sentence(run, ahead)}{spent}{page}\n\n<sub>Run `{run.id}`</sub>"


def _state_sentence(run: Run, ahead: int) -> str:
    if run.status is RunStatus.QUEUED:
        turn = "It is next." if ahead == 0 else f"Runs before it: {ahead}."
        waits = f" {waiting_sentence(run.waiting_for)}" if run.waiting_for else ""
        return f"The run that @{run.asked_by} asked for is in the queue. {turn}{waits}"
    if not run.status.final:
        return f"I am working on it, as @{run.asked_by} asked."
    opened = f": #{run.pull_request}" if run.pull_request else ""
    return (
        f"Nothing is under way. The latest run, asked for by @{run.asked_by}, ended: "
        f"{run.status}{opened}."
    )


def run_explanation(run: Run, result: Selection | NoFix | None, edits: str = "") -> str:
    """Why a run ended as it did. `result` is the pipeline's, None when it came to none.

    `edits` lists those that can be put into a pull request, this run's or an earlier one's.
    """
    parts = [_state_sentence(run, 0)]
    match result:
        case Selection():
            parts += _selection_sections(result)
        case NoFix():
            parts.append(f"There was no fix: {no_fix_reason(result.reason)}")
            parts += [f"- {prose(sentence, 600)}" for sentence in result.details[:MAX_REASONS]]
        case None:
            if run.failure is not None:
                parts.append(f"The reason: {failure_reason(run.failure, run.detail)}")
    parts += [text for text in (edits, run.omissions) if text]
    return "\n\n".join(parts) + f"\n\n<sub>Run `{run.id}`</sub>"


def _selection_sections(result: Selection) -> list[str]:
    proof = result.evidence
    table = details(
        "Edits × tests", render_vote_table(proof.votes, result.candidate, proof.standings)
    )
    return [
        f"I looked at {pluralize(len(proof.context.files), 'file')} and had "
        f"{pluralize(len(proof.votes.candidates), 'edit')}. {prose(proof.why, 2000)} "
        f"I take it to be right with a probability of {result.confidence:.0%}.",
        table,
    ]


def invalid_config(found: LayerProblem) -> str:
    """To `config`, when a file of it is not valid."""
    problem = found.problem
    return (
        f"{code(found.source)}, line {problem.line}, is not valid: {prose(problem.message, 600)} "
        "I start no work until it is."
    )


def refusal_marker(login: str) -> str:
    """What a refusal to one person is found by."""
    return (
        f"<!-- capuchin:refused login={''.join(c for c in login if c.isalnum() or c in '-_')} -->"
    )


def refusal(login: str, trust: Sequence[str] = ("write",)) -> str:
    """To someone who may not ask; said once a day and person."""
    return (
        f"Thank you, @{login}. I only start for {_who_may_ask(trust)}; "
        "one of its maintainers can put the label on instead.\n\n" + refusal_marker(login)
    )


def _who_may_ask(trust: Sequence[str]) -> str:
    words = {word.casefold() for word in trust}
    if "triage" in words:
        return "people who can triage the issues of this repository"
    if "write" in words:
        return "people who can push to this repository"
    return "the people whom the maintainers of this repository have named"


def quota_refusal(login: str, limit: QuotaLimit) -> str:
    """To someone who may ask, but not so often; said once a day and person."""
    return (
        f"Thank you, @{login}. {quota_sentence(limit)} Please ask again tomorrow.\n\n"
        f"{refusal_marker(login)}"
    )


def quota_sentence(limit: QuotaLimit) -> str:
    """Which quota, as a sentence."""
    whose = {
        "person": f"those of one person ({limit.runs} a day)",
        "repository": f"those of this repository ({limit.runs} a day)",
        "installation": f"those of all repositories here together ({limit.runs} a day)",
    }
    return f"The runs of today are used up: {whose[limit.subject]}."


def render_existing_work(run: Run, work: ExistingWork, name: str) -> str:
    """The status comment when somebody seems to work on the issue: what was seen, how to go on."""
    seen: list[str] = []
    if work.locked:
        seen.append("the conversation is locked")
    if work.assignees:
        who = ", ".join(code(login) for login in work.assignees)
        seen.append(f"it is assigned to {who}")
    seen += [
        f"the open pull request #{pull.number} by {code(pull.author)} says that it fixes this"
        for pull in work.pulls
    ]
    if work.branches:
        named = ", ".join(code(branch) for branch in work.branches)
        seen.append(f"there are branches named after it: {named}")
    listed = "\n".join(f"- {one}" for one in seen)
    return render_status(
        run,
        f"Before I start: somebody seems to work on this already.\n\n{listed}\n\n"
        f"If I should work on it all the same, @{run.asked_by}, {LABEL_AGAIN} or write "
        f"`/{name} fix anyway`. I have spent nothing so far.",
    )


def render_opted_out(run: Run, label: str) -> str:
    """The status comment where a label keeps us away."""
    return render_status(
        run,
        f"I leave this alone, as it wears the label {code(label)}. If I should work on it, take "
        "that off and ask again.",
    )


def render_edited_since(run: Run) -> str:
    """The status comment when what was asked about is not known any more: its text has changed."""
    return render_status(
        run,
        "The title or the text of this issue was changed after I was asked, and I did not hear "
        "what it said before, so I have read neither. If I should work on it as it is now, "
        f"@{run.asked_by}, {LABEL_AGAIN}. I have spent nothing so far.",
    )


def render_plan(run: Run, plan: Plan) -> str:
    """The status comment after a dry run."""
    listed = "\n".join(f"- {code(path)}" for path in plan.files[:MAX_PLAN_FILES])
    more = len(plan.files) - MAX_PLAN_FILES
    rest = f"\n- and {more} more" if more > 0 else ""
    parts = [
        "This is what I would begin with. It was a dry run: I opened nothing.",
        f"**Where I would look**\n\n{listed}{rest}",
    ]
    if plan.script is None or plan.run is None:
        parts.append("**No reproduction**: I could not write a script that runs.")
    else:
        what = (
            "This script fails because of the issue"
            if plan.reproduced
            else "This is my best script, but it does not fail because of the issue"
        )
        body = (
            f"{block(plan.script.text, 8_000, 'python')}\n\n"
            f"It said:\n\n{block(plan.run.output, 4_000)}"
        )
        parts.append(f"**{what}.**\n\n{details('The script and what it said', body)}")
    if plan.estimate.dollars:
        parts.append(
            f"**A fix** would cost about ${plan.estimate.dollars:.2f} at list prices, "
            f"${plan.estimate.most:.2f} at most."
        )
    return render_status(run, "\n\n".join(parts))


def omissions_note(skipped: SkippedComments) -> str:
    """What of the issue the model did not get to see; empty when it saw all of it."""
    parts: list[str] = []
    if skipped.untrusted:
        parts.append(f"{_count_comments(skipped.untrusted)} by people who may not command me")
    if skipped.late:
        parts.append(f"{_count_comments(skipped.late)} written or changed after I was asked")
    if skipped.edited:
        parts.append("changes of the issue made after I was asked")
    return f"Not read: {'; '.join(parts)}." if parts else ""


def _count_comments(number: int) -> str:
    return pluralize(number, "comment")
