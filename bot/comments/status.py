"""The status comment of an issue, one function a state. Untrusted values are made inert."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal

from bot.comments.checklist import render_checklist
from bot.comments.evidence.vote_table import render_edits
from bot.comments.no_fix import (
    LABEL_AGAIN,
    NO_PYTHON,
    no_fix_headline,
    no_fix_reason,
    script_headline,
)
from bot.comments.stop_reason import stop_reason
from bot.markdown import block, code, details, prose
from bot.storage.progress import Progress
from bot.types import Failure, Mode, Run, RunId, StopReason, replace
from pipeline.selection.letters import to_letter
from pipeline.types import NoFix

_LOG_CHARACTERS = 3000
NOTHING_SPENT = "I had spent nothing."

WithdrawalReason = Literal["trust", "disabled"]
"""Why a run that had started must end early."""


def status_marker(run_id: RunId) -> str:
    """Identifies the run's one status comment; invisible on GitHub."""
    return f"<!-- capuchin:status run={run_id} -->"


def pull_marker(run_id: RunId) -> str:
    """Identifies a run's pull request; invisible on GitHub."""
    return f"<!-- capuchin:run={run_id} -->"


def render_started(run: Run) -> str:
    """The status comment of a run that has just started."""
    return render_status(run, _work_sentence(run))


def render_progress(run: Run, progress: Progress) -> str:
    """The status comment while the run makes progress."""
    return render_status(
        replace(run, dollars=max(run.dollars, progress.dollars)),
        f"{_work_sentence(run)}\n\n{render_checklist(run, progress)}",
    )


def render_waiting(run: Run, reason: Failure) -> str:
    """The status comment of a started run while a service that it needs is unavailable."""
    more = "I have saved my progress, and will retry and continue from there."
    return render_status(run, f"{_work_sentence(run)}\n\n{waiting_sentence(reason)} {more}")


def waiting_sentence(reason: Failure) -> str:
    """Which service a run waits for, as a sentence."""
    if reason is Failure.WRITES_SPENT:
        return "The run waits because I wrote too often in this repository within an hour."
    model, sandbox = "the language model", "the sandbox that runs the tests"
    what = {Failure.MODEL_UNAVAILABLE: model, Failure.SANDBOX_UNAVAILABLE: sandbox}
    return f"The run is waiting for {what.get(reason, 'GitHub')}, which is not responding."


def _work_sentence(run: Run) -> str:
    asked = f"as @{run.asked_by} asked."
    match run.mode:
        case Mode.PLAN:
            plan = "This is a dry run: I will not open a pull request."
            return f"I am looking into this, {asked} {plan}"
        case Mode.JUDGE:
            pulls = ", ".join(f"#{number}" for number in run.pulls)
            return f"I am comparing {pulls}, {asked} I will not push anything."
        case Mode.USE:
            letter = to_letter(run.candidate - 1)
            return f"I am putting edit {letter} into the pull request, {asked}"
        case _:
            return f"I am looking into this, {asked}"


def render_opened(run: Run, number: int, *, draft: bool, proven: bool = True) -> str:
    """The status comment once the pull request is open."""
    if not proven:
        return render_status(
            run,
            f"I opened #{number}, a draft with an **unproven** edit: no test of this repository "
            "shows that it fixes the issue. Please check it before you use it.",
        )
    please = "It is a draft: please review" if draft else "Please review"
    return render_status(
        run,
        f"I opened #{number} with a test that fails without the change and passes with it. "
        f"{please} it before you merge.",
    )


def render_no_fix(run: Run, result: NoFix, name: str = "", *, fixed_by: int | None = None) -> str:
    """The status comment of a run that found no fix.

    `name` is what commands begin with, `fixed_by` the merged pull request that fixed it already.
    """
    text = no_fix_headline(result, fixed_by)
    reasons = "\n".join(f"- {prose(sentence, 600)}" for sentence in result.details[:8])
    if reasons:
        text += f"\n\nWhat I found out:\n\n{reasons}"
    if result.suspects:
        paths = "\n".join(f"- {code(path)}" for path in result.suspects[:10])
        text += (
            f"\n\nMy edits changed these files, so the cause is probably in one of them:\n\n{paths}"
        )
    if result.script:
        script = block(result.script, 12_000, "python")
        text += f"\n\n{details(script_headline(result), script)}"
    if result.edits:
        text += f"\n\n{render_edits(result.edits, f'/{name} use' if name else '')}"
    return render_status(run, text)


def render_not_judged(run: Run) -> str:
    """The status comment when pull requests cannot be compared because no code can be run."""
    return render_status(run, f"I cannot compare them: {no_fix_reason('no source files')}")


def render_failed(run: Run, failure: Failure, detail: str = "") -> str:
    """The status comment of a failed run; `detail` is `Run.detail`."""
    return render_status(run, f"I could not work on this: {failure_reason(failure, detail)}")


def render_withdrawn(run: Run, why: WithdrawalReason) -> str:
    """The status comment of a run that lost its permission to continue."""
    because = {
        "trust": f"@{run.asked_by} no longer has permission to start me",
        "disabled": "I have been disabled in this repository",
    }
    return render_status(run, f"I stopped working on this because {because[why]}.")


def render_stopped(run: Run) -> str:
    """The status comment of a run that somebody stopped, with what it spent."""
    stop = run.stop
    assert stop is not None
    again = LABEL_AGAIN
    if stop.why is StopReason.DISABLED:
        again = "remove that label and ask again"
    spent = f"I had spent ${run.dollars:.2f} at list prices." if run.dollars else NOTHING_SPENT
    return render_status(
        replace(run, dollars=0.0),
        f"I stopped {stop_reason(stop)}. {spent} To restart, {again}.",
    )


def render_late_stop(run: Run, number: int) -> str:
    """The status comment when the pull request was opened before the stop request arrived."""
    return render_status(
        run,
        f"I had already opened #{number} when the stop request arrived. Close it if you do not "
        "want it; I will not change it.",
    )


def _invalid_config(detail: str) -> str:
    """`detail` is the problem."""
    where = f": {prose(detail, 600)}" if detail else "."
    return f"my configuration file is not valid{where}\n\nCorrect it, then {LABEL_AGAIN}."


def _other_format(detail: str) -> str:
    """`detail` is our own sentence about the two formats."""
    return f"another version of me began this run. {prose(detail, 300)} Please {LABEL_AGAIN}."


def _too_large(detail: str) -> str:
    """`detail` is what there is too much of, as a sentence."""
    what = prose(" ".join(detail.split()), 200)
    return f"the repository is larger than any that I work on. {what}".rstrip()


def _install_failure(detail: str) -> str:
    """`detail` as `bot.failures.environment_detail` makes it."""
    command, sentence, log = [*detail.split("\n", 2), "", "", ""][:3]
    step = f" {code(command)} failed." if command else ""
    why = f" {prose(sentence, 1000)}" if sentence else ""
    text = (
        f"the repository could not be installed.{step}{why}\n\nIf it installs for you, describe "
        f"how in `.github/capuchin.yml`, then {LABEL_AGAIN}."
    )
    if log.strip():
        text += "\n\n" + details("The end of the log", block(log, _LOG_CHARACTERS))
    return text


_LATER: Final = f"Please {LABEL_AGAIN} later."
_OPERATOR = "The operator of this bot"
_FAILURE_REASONS: Final[Mapping[Failure, str | Callable[[str], str]]] = {
    Failure.ISSUE_GONE: "the issue is no longer in this repository.",
    Failure.ISSUE_CLOSED: f"the issue is closed. To have it fixed, reopen it and {LABEL_AGAIN}.",
    Failure.REPOSITORY_GONE: (
        "the repository, or the commit that I started from, no longer exists. "
        f"If the repository has moved, {LABEL_AGAIN}."
    ),
    Failure.REPOSITORY_EMPTY: (
        f"the repository has no commits yet. Push some code, then {LABEL_AGAIN}."
    ),
    Failure.REPOSITORY_TOO_LARGE: _too_large,
    Failure.CONFIG_INVALID: _invalid_config,
    Failure.NOT_PYTHON: NO_PYTHON,
    Failure.ENVIRONMENT: _install_failure,
    Failure.MODEL_UNAVAILABLE: (
        f"the language model did not respond for a long time. Please {LABEL_AGAIN} later."
    ),
    Failure.MODEL_MISCONFIGURED: (
        "the language model rejected the key, name or address that I am configured with. "
        f"{_OPERATOR} has to correct it."
    ),
    Failure.MODEL_REFUSED: (
        "the language model declined to work on this issue. It needs a person."
    ),
    Failure.SANDBOX_UNAVAILABLE: (
        "the sandbox that runs the tests was unavailable for a long time. "
        f"Please {LABEL_AGAIN} later."
    ),
    Failure.GITHUB_UNAVAILABLE: f"GitHub did not respond for a long time. {_LATER}",
    Failure.WRITES_SPENT: f"I had to write too often in this repository. {_LATER}",
    Failure.PUBLISH_REFUSED: (
        "I found a fix, but this repository's rules did not let me open a pull request for it. "
        f"Allow this App to push branches named `capuchin/…`, then {LABEL_AGAIN}."
    ),
    Failure.NO_PROGRESS: (
        "I was interrupted repeatedly and made no progress. "
        f"{_OPERATOR} can find the reason in its log."
    ),
    Failure.OTHER_FORMAT: _other_format,
    Failure.INTERNAL: (
        f"I hit a bug of my own. {_OPERATOR} can find it in the log, under the run's id."
    ),
}
"""A sentence, or what makes one of `Run.detail`."""


def failure_reason(failure: Failure, detail: str = "") -> str:
    """Why the run failed, and what to do next.

    `detail` is `Run.detail` for ENVIRONMENT, the problem for CONFIG_INVALID and
    REPOSITORY_TOO_LARGE, and unused otherwise.
    """
    reason = _FAILURE_REASONS[failure]
    return reason if isinstance(reason, str) else reason(detail)


def render_status(run: Run, text: str) -> str:
    """The status comment with `text`, then the run's id, cost, page and marker."""
    spent = f" · ${run.dollars:.2f} at list prices" if run.dollars else ""
    page = f" · [run page]({run.page_url})" if run.page_url else ""
    unread = f" · {run.omissions}" if run.omissions else ""
    return f"{text}\n\n<sub>Run `{run.id}`{spent}{page}{unread}</sub>\n{status_marker(run.id)}\n"
