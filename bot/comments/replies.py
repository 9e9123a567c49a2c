"""Replies to commands, and the status comments of refused and dry runs.

Untrusted values are made inert.
"""

from __future__ import annotations

from collections.abc import Sequence

from bot.comments.failures import LABEL_AGAIN, failure_reason, no_fix_reason, waiting_sentence
from bot.comments.status import render_checklist, render_status, start_words, turn_words
from bot.comments.vote_table import render_vote_table
from bot.data.github_facts import ExistingWork
from bot.data.progress import Progress
from bot.data.run import Login, QueuePosition, QuotaLimit, Run, RunStatus, SkippedComments
from bot.repo_config.model import LayerProblem
from bot.safe_text import block, code, details, prose
from pipeline.codebase.text import pluralize
from pipeline.data.types import NoFix, Selection
from pipeline.workflows.plan import Plan, assumption

MAX_PLAN_FILES = 15
MAX_REASONS = 8


def reply_marker(request_id: str) -> str:
    """Identifies the reply to one command; invisible on GitHub."""
    return f"<!-- capuchin:reply to={request_id} -->"


def command_waits(name: str) -> str:
    """To a command that arrives while a run is active."""
    return (
        "I am already working on this issue. I will start on this when that run has ended; "
        f"`/{name} stop` stops both."
    )


def nothing_to_stop() -> str:
    """To `stop`, when no run is active."""
    return "I am not working on this, so there is nothing to stop."


def no_run(name: str) -> str:
    """To a question about a run, when there was no run."""
    return f"I have not worked on this issue in the last 30 days. Write `/{name} fix` to start me."


def no_such_verb(name: str, verb: str, meant: str | None) -> str:
    """To an unknown verb."""
    hint = f" Did you mean `/{name} {meant}`?" if meant else ""
    return f"I do not know {code(verb, 40)}.{hint} `/{name} help` lists all commands."


def wrong_place(verb: str) -> str:
    """To a verb for issues in a comment on a pull request or on one of its lines."""
    return f"{code(verb, 40)} does not work here. Please write it on the issue."


def foreign_pull() -> str:
    """To a command on a pull request that is not ours, or no longer ours."""
    return "I did not open this pull request, or no longer follow it up, so I leave it alone."


def help_text(name: str, verbs: Sequence[tuple[str, str]], label: str) -> str:
    """Every verb and the labels."""
    # A list instead of a table: a phone shows whole sentences.
    rows = "\n".join(f"- `/{name} {verb}`: {does}" for verb, does in verbs)
    return (
        f"Start a comment with one of these commands.\n\n{rows}\n\n"
        f"The label {code(label)} does the same as `fix`; {code(label + ':auto')} skips the "
        "question whether somebody already works on the issue, and opens the pull request "
        f"ready for review; {code(label + ':dry-run')} does the same as `plan`. "
        "Remove the label or close the issue to stop me."
    )


def run_status(
    run: Run, wait: QueuePosition | None = None, progress: Progress | None = None
) -> str:
    """The state of a run: `wait` of one in the queue, `progress` of one at work."""
    page = f" [Details]({run.page_url})." if run.page_url else ""
    spent = f" Cost: ${run.dollars:.2f} at list prices." if run.dollars else ""
    shown = f"\n\n{render_checklist(run, progress)}" if progress else ""
    return f"{_state_sentence(run, wait)}{spent}{page}{shown}\n\n<sub>Run `{run.id}`</sub>"


def render_writes_spent(most: int, at: str) -> str:
    """The notice that an hour's writes to a repository are spent; `at` is when they go on."""
    return (
        f"I have written {pluralize(most, 'time')} in this repository within an hour, which is my "
        f"limit. Nothing is lost: I continue by myself at {at}."
    )


def _state_sentence(run: Run, wait: QueuePosition | None) -> str:
    if run.status is RunStatus.QUEUED:
        turn = turn_words(wait) if wait else "queued"
        expected = f" {start_words(wait)}" if wait and wait.expected_seconds else ""
        waits = f" {waiting_sentence(run.waiting_for)}" if run.waiting_for else ""
        return f"The run that @{run.asked_by} requested is {turn}.{expected}{waits}"
    if not run.status.final:
        return f"I am working on it, as @{run.asked_by} asked."
    opened = f" #{run.pull_request}" if run.pull_request else ""
    return (
        f"No run is active. The result of the latest run, requested by @{run.asked_by}: "
        f"{run.status}{opened}."
    )


def run_explanation(run: Run, result: Selection | NoFix | None, edits: str = "") -> str:
    """Why a run ended as it did. `result` is the pipeline's; None if it produced none.

    `edits` lists the edits of this or an earlier run that can be put into a pull request.
    """
    parts = [_state_sentence(run, None)]
    match result:
        case Selection():
            parts += _selection_sections(result)
        case NoFix():
            parts.append(f"There was no fix: {no_fix_reason(result.reason)}")
            parts += [f"- {prose(sentence, 600)}" for sentence in result.details[:MAX_REASONS]]
        case None:
            if run.failure is not None:
                parts.append(f"Reason: {failure_reason(run.failure, run.detail)}")
    parts += [text for text in (edits, run.omissions) if text]
    return "\n\n".join(parts) + f"\n\n<sub>Run `{run.id}`</sub>"


def _selection_sections(result: Selection) -> list[str]:
    proof = result.evidence
    table = details(
        "Edits × scripts",
        render_vote_table(
            proof.votes,
            result.candidate,
            proof.standings,
            order=proof.order,
            reproduced=proof.reproduced,
        ),
    )
    return [
        f"I looked at {pluralize(len(proof.context.files), 'file')} and wrote "
        f"{pluralize(len(proof.votes.candidates), 'edit')}. {prose(proof.why, 2000)} "
        f"I estimate that it is correct with a probability of {result.confidence:.0%}.",
        table,
    ]


def invalid_config(found: LayerProblem) -> str:
    """To `config`, when a settings file is not valid."""
    problem = found.problem
    return (
        f"{code(found.source)}, line {problem.line}, is not valid: {prose(problem.message, 600)} "
        "I will not start any work until it is corrected."
    )


def refusal_marker(login: Login) -> str:
    """Identifies a refusal to one person; invisible on GitHub."""
    return (
        f"<!-- capuchin:refused login={''.join(c for c in login if c.isalnum() or c in '-_')} -->"
    )


def refusal(login: Login, trust: Sequence[str] = ("write",)) -> str:
    """To somebody without permission to start a run; posted once a day for each person."""
    return (
        f"Thank you, @{login}. I only work for {_who_may_ask(trust)}; "
        "a maintainer can add the label instead.\n\n" + refusal_marker(login)
    )


def _who_may_ask(trust: Sequence[str]) -> str:
    words = {word.casefold() for word in trust}
    if "triage" in words:
        return "people who can triage issues in this repository"
    if "write" in words:
        return "people who can push to this repository"
    return "the people that this repository's maintainers have listed"


def quota_refusal(login: Login, limit: QuotaLimit) -> str:
    """To somebody who has used up a quota; posted once a day for each person."""
    return (
        f"Thank you, @{login}. {quota_sentence(limit)} Please ask again tomorrow.\n\n"
        f"{refusal_marker(login)}"
    )


def quota_sentence(limit: QuotaLimit) -> str:
    """Which quota is used up, as a sentence."""
    whose = {
        "person": "one person",
        "repository": "this repository",
        "installation": "all repositories of this installation together",
    }
    return f"Today's quota of {pluralize(limit.runs, 'run')} for {whose[limit.subject]} is used up."


def render_existing_work(run: Run, work: ExistingWork, name: str) -> str:
    """The status comment when somebody seems to work on the issue: the signs and the ways on."""
    seen: list[str] = []
    if work.locked:
        seen.append("the conversation is locked")
    if work.assignees:
        who = ", ".join(code(login) for login in work.assignees)
        seen.append(f"it is assigned to {who}")
    seen += [
        f"the open pull request #{pull.number} by {code(pull.author)} says that it fixes this issue"
        for pull in work.pulls
    ]
    if work.ours and not (seen or work.branches):
        return render_status(run, _own_pull_sentence(work.ours[-1].number, name))
    seen += [f"I have #{pull.number} open for this" for pull in work.ours]
    if work.branches:
        named = ", ".join(code(branch) for branch in work.branches)
        seen.append(f"there are branches named after this issue: {named}")
    listed = "\n".join(f"- {one}" for one in seen)
    return render_status(
        run,
        f"I have not started: somebody seems to be working on this already.\n\n{listed}\n\n"
        f"@{run.asked_by}, if you want me to work on it anyway, {LABEL_AGAIN} or write "
        f"`/{name} fix anyway`. I have spent nothing so far.",
    )


def _own_pull_sentence(number: int, name: str) -> str:
    return (
        f"I have #{number} open for this. `/{name} retry anyway` starts again, and closes "
        f"#{number} once there is a new pull request; `/{name} use B` puts another of my edits "
        f"into it; a review of #{number} changes it. I have spent nothing so far."
    )


def render_opted_out(run: Run, label: str) -> str:
    """The status comment where a label excludes the issue."""
    return render_status(
        run,
        f"I will not work on this because it has the label {code(label)}. If you want me to, "
        "remove that label and ask again.",
    )


def render_edited_since(run: Run) -> str:
    """The status comment when the version of the issue that the requester saw is unknown."""
    return render_status(
        run,
        "The title or text of this issue was edited after the request, and I never received the "
        f"earlier version, so I have not started. @{run.asked_by}, if you want me to work on the "
        f"current version, {LABEL_AGAIN}. I have spent nothing so far.",
    )


def render_plan(run: Run, plan: Plan, earlier: tuple[float, float] | None = None) -> str:
    """The status comment after a dry run; `earlier`: the dollars that the middle half of the
    repository's latest fixes took."""
    listed = "\n".join(f"- {code(path)}" for path in plan.files[:MAX_PLAN_FILES])
    more = len(plan.files) - MAX_PLAN_FILES
    rest = f"\n- and {more} more" if more > 0 else ""
    parts = [
        "This is how I would start. It was a dry run: I did not open a pull request.",
        f"**Where I would look**\n\n{listed}{rest}",
    ]
    if plan.script is None or plan.run is None:
        parts.append("**No reproduction**: I could not write a script that runs.")
    else:
        what = (
            "This script fails because of the issue"
            if plan.reproduced
            else "This is my best script, but it does not reproduce the issue"
        )
        body = (
            f"{block(plan.script.text, 8_000, 'python')}\n\n"
            f"Output:\n\n{block(plan.run.output, 4_000)}"
        )
        parts.append(f"**{what}.**\n\n{details('The script and its output', body)}")
    if plan.estimate.dollars:
        parts.append(
            f"**A fix** would cost about ${plan.estimate.dollars:.2f} at list prices"
            f"{assumption(plan.estimate)}, ${plan.estimate.most:.2f} at most."
        )
    if earlier:
        parts.append(
            f"Half of the latest fixes here cost between ${earlier[0]:.2f} and ${earlier[1]:.2f}."
        )
    return render_status(run, "\n\n".join(parts))


def omissions_note(skipped: SkippedComments) -> str:
    """Which parts of the issue the model did not see; empty if it saw everything."""
    parts: list[str] = []
    if skipped.untrusted:
        parts.append(
            f"{_count_comments(skipped.untrusted)} by people without permission to start me"
        )
    if skipped.late:
        parts.append(f"{_count_comments(skipped.late)} written or edited after the request")
    if skipped.edited:
        parts.append("edits of the issue after the request")
    return f"Not read: {'; '.join(parts)}." if parts else ""


def _count_comments(number: int) -> str:
    return pluralize(number, "comment")
