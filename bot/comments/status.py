"""Every sentence the bot says on an issue, one function each. Untrusted values are made inert."""

from __future__ import annotations

from typing import Literal, assert_never, get_args

from bot.comments.stop_reason import stop_reason
from bot.markdown import block, code, details, prose
from bot.storage.progress import Progress
from bot.types import Failure, Mode, QueuePosition, Run, StopReason, replace
from pipeline.types import NoFix, NoFixReason

_LOG_CHARACTERS = 3000
LABEL_AGAIN = "put the label on again"
NOTHING_SPENT = "I had spent nothing."
NO_FIX_REASONS: tuple[NoFixReason, ...] = get_args(NoFixReason)

WithdrawalReason = Literal["trust", "disabled"]
"""Why a run that had begun may not go on."""


def status_marker(run_id: str) -> str:
    """What the run's one status comment is found by; shown to nobody."""
    return f"<!-- capuchin:status run={run_id} -->"


def pull_marker(run_id: str) -> str:
    """What a run's pull request is found by."""
    return f"<!-- capuchin:run={run_id} -->"


def render_queued(run: Run, wait: QueuePosition) -> str:
    """The status comment of a run that no worker has time for yet."""
    before = wait.position - 1
    runs = "one run is" if before == 1 else f"{before} runs are"
    turn = f"{runs} before it" if before else "it is next"
    return render_status(
        run,
        f"I will look into this, as @{run.asked_by} asked. It waits its turn: {turn}."
        + (
            f" I expect to begin {_rough_time(wait.expected_seconds)}."
            if wait.expected_seconds is not None
            else ""
        ),
    )


def render_started(run: Run) -> str:
    """The status comment as it is first written."""
    return render_status(run, _work_sentence(run))


def render_progress(run: Run, progress: Progress) -> str:
    """The status comment while work goes on."""
    counts = " · ".join(
        f"{count} {name if count != 1 else name[:-1]}{text}"
        for count, name, text in (
            (progress.files, "files", " read"),
            (progress.tests, "tests", ""),
            (progress.edits, "edits", ""),
        )
        if count
    )
    text = "\n\n".join(filter(None, (progress.doing, counts)))
    return render_status(
        replace(run, dollars=max(run.dollars, progress.dollars)),
        f"{_work_sentence(run)}\n\n{text}",
    )


def render_waiting(run: Run, reason: Failure) -> str:
    """The status comment of a run that had begun, while what it needs does not answer."""
    more = "I keep what I have, try again by myself and go on from there."
    return render_status(run, f"{_work_sentence(run)}\n\n{waiting_sentence(reason)} {more}")


def waiting_sentence(reason: Failure) -> str:
    """What a run waits for, in a sentence."""
    model, sandbox = "the language model", "the sandbox that runs the tests"
    what = {Failure.MODEL_UNAVAILABLE: model, Failure.SANDBOX_UNAVAILABLE: sandbox}
    return f"It waits for {what.get(reason, 'GitHub')}, which does not answer now."


def _work_sentence(run: Run) -> str:
    asked = f"as @{run.asked_by} asked."
    match run.mode:
        case Mode.PLAN:
            return f"I am looking into this, {asked} This is a dry run: I shall open nothing."
        case Mode.JUDGE:
            pulls = ", ".join(f"#{number}" for number in run.pulls)
            return f"I am judging {pulls}, {asked} I shall push nothing."
        case Mode.USE:
            return f"I am putting number {run.candidate} of my edits into the pull request, {asked}"
        case _:
            return f"I am looking into this, {asked}"


def render_opened(run: Run, number: int, *, draft: bool) -> str:
    """The status comment when the pull request is there."""
    please = "It is a draft: please review" if draft else "Please review"
    return render_status(
        run,
        f"I opened #{number} with a test that fails without the change and passes with it. "
        f"{please} it before you merge.",
    )


def render_no_fix(run: Run, result: NoFix) -> str:
    """The status comment after an honest no."""
    text = f"I did not find a fix that I can stand behind: {no_fix_reason(result.reason)}"
    reasons = "\n".join(f"- {prose(sentence, 600)}" for sentence in result.details[:8])
    if reasons:
        text += f"\n\nWhat I learnt on the way:\n\n{reasons}"
    if result.suspects:
        paths = "\n".join(f"- {code(path)}" for path in result.suspects[:10])
        text += f"\n\nWhere I suspect the cause, by what the edits change:\n\n{paths}"
    if result.script:
        script = block(result.script, 12_000, "python")
        text += f"\n\n{details('A script that fails on the code as it is', script)}"
    return render_status(run, text)


def render_not_judged(run: Run) -> str:
    """The status comment when pull requests cannot be judged: nothing can be run here."""
    return render_status(run, f"I cannot judge them: {no_fix_reason('no source files')}")


def render_failed(run: Run, failure: Failure, detail: str = "") -> str:
    """The status comment when the run could not be done; `detail` as in `Run.detail`."""
    return render_status(run, f"I could not work on this: {failure_reason(failure, detail)}")


def render_withdrawn(run: Run, why: WithdrawalReason) -> str:
    """The status comment of a run that had begun, and may not go on."""
    because = {
        "trust": f"@{run.asked_by} may no longer ask for it",
        "disabled": "I have been switched off in this repository",
    }
    return render_status(run, f"I stopped working on this: {because[why]}.")


def render_stopped(run: Run) -> str:
    """The status comment of a run that somebody stopped, with what it had spent."""
    stop = run.stop
    assert stop is not None
    again = LABEL_AGAIN
    if stop.why is StopReason.DISABLED:
        again = "take that label off and ask again"
    spent = f"I had spent ${run.dollars:.2f} at list prices." if run.dollars else NOTHING_SPENT
    return render_status(
        replace(run, dollars=0.0),
        f"I stopped, {stop_reason(stop)}. {spent} If it is wanted after all, {again}.",
    )


def render_late_stop(run: Run, number: int) -> str:
    """The status comment when the pull request was open before the stop was heard."""
    return render_status(
        run,
        f"I had opened #{number} before I was told to stop. Close it if you do not want it; "
        "I shall not touch it.",
    )


def _install_failure(detail: str) -> str:
    """`detail` as `bot.failures.environment_detail` makes it."""
    command, sentence, log = [*detail.split("\n", 2), "", "", ""][:3]
    step = f" {code(command)} failed." if command else ""
    why = f" {prose(sentence, 1000)}" if sentence else ""
    text = (
        f"the repository could not be installed.{step}{why}\n\nIf it installs for you, say how "
        f"in `.github/capuchin.yml`, then {LABEL_AGAIN}."
    )
    if log.strip():
        text += "\n\n" + details("The end of the log", block(log, _LOG_CHARACTERS))
    return text


def failure_reason(failure: Failure, detail: str = "") -> str:  # noqa: C901 - one case a sentence
    """Why, and what to do next. `detail` is as in `Run.detail` for ENVIRONMENT, the problem for
    CONFIG_INVALID, and unused otherwise."""
    match failure:
        case Failure.ISSUE_GONE:
            return "the issue is no longer in this repository."
        case Failure.ISSUE_CLOSED:
            return f"the issue is closed. If it should be fixed, reopen it and {LABEL_AGAIN}."
        case Failure.REPOSITORY_GONE:
            return (
                "the repository, or the commit I began from, is no longer there. "
                f"If it was moved, {LABEL_AGAIN}."
            )
        case Failure.REPOSITORY_EMPTY:
            return f"the repository has no commits yet. Push some code, then {LABEL_AGAIN}."
        case Failure.CONFIG_INVALID:
            where = f": {prose(detail, 600)}" if detail else "."
            return f"my configuration file is not valid{where}\n\nMend it, then {LABEL_AGAIN}."
        case Failure.NOT_PYTHON:
            return "I found no Python code here, and Python is all that I can fix."
        case Failure.ENVIRONMENT:
            return _install_failure(detail)
        case Failure.MODEL_UNAVAILABLE:
            return f"the language model did not answer for a long time. Later, {LABEL_AGAIN}."
        case Failure.MODEL_MISCONFIGURED:
            return (
                "the language model does not accept the key, name or address that I was given. "
                "Whoever operates this bot has to mend that."
            )
        case Failure.MODEL_REFUSED:
            return "the language model declined to work on this issue. A person has to."
        case Failure.SANDBOX_UNAVAILABLE:
            return (
                f"the sandbox that runs the tests was down for a long time. Later, {LABEL_AGAIN}."
            )
        case Failure.GITHUB_UNAVAILABLE:
            return f"GitHub did not answer for a long time. Later, {LABEL_AGAIN}."
        case Failure.PUBLISH_REFUSED:
            return (
                "I found a fix, but the rules of this repository did not let me open a pull "
                "request for it. Let this App push branches named `capuchin/…`, then "
                f"{LABEL_AGAIN}."
            )
        case Failure.NO_PROGRESS:
            return (
                "I was interrupted again and again without getting further. "
                "Whoever operates this bot finds the reason in its log."
            )
        case Failure.INTERNAL:
            return (
                "I met a bug of my own. Whoever operates this bot finds it in the log, "
                "under the number of the run."
            )
        case _:
            assert_never(failure)


def no_fix_reason(reason: NoFixReason, again: str = LABEL_AGAIN) -> str:  # noqa: C901 - as above
    """Why there is no fix, and what would help; `again`: how to have it tried once more."""
    match reason:
        case "empty repository":
            return f"the repository has no files. Push some code, then {again}."
        case "no source files":
            return "I found no Python code here, and Python is all that I can fix."
        case "no relevant files":
            return (
                "no file of this repository seems to have to do with it. "
                f"Name the function or file in the issue, then {again}."
            )
        case "no reproduction":
            return (
                "I could not write a test that fails because of it. Add a short script that "
                f"shows the problem, what you expected and what happened, then {again}."
            )
        case "no edit":
            return f"no edit that I wrote could be applied. More detail helps; then {again}."
        case "no edit passes its test":
            return (
                "I could make a test fail, but none of my edits made it pass. "
                f"A hint at where the cause lies helps; then {again}."
            )
        case "edits break tests":
            return (
                "every edit that fixed it broke tests of this repository that pass today. "
                f"If one of those tests is wrong, say so in the issue, then {again}."
            )
        case "reproduction not confirmed":
            return (
                "the test, written as a file of this repository, did not fail before the edit "
                f"and pass after it. An example as a test helps; then {again}."
            )
        case "not sure enough":
            return (
                "the best edit I have is too likely to be wrong. To see such edits, lower "
                f"`confidence` in `.github/capuchin.yml`, then {again}."
            )
        case "out of budget":
            return (
                "a ceiling on what may be spent was reached before I was sure. Raise `budget` in "
                "`.github/capuchin.yml`, or wait until a day's ceiling begins anew (00:00 UTC); "
                f"then {again}."
            )
        case _:
            assert_never(reason)


def _rough_time(seconds: float) -> str:
    """When that is from now, as roughly as it is known."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return "within two minutes"
    if minutes < 90:
        return f"in about {minutes} minutes"
    return f"in about {round(minutes / 60)} hours"


def render_status(run: Run, text: str) -> str:
    """The status comment that says `text`, with the run's number, cost, page and marker."""
    spent = f" · ${run.dollars:.2f} at list prices" if run.dollars else ""
    page = f" · [its page]({run.page_url})" if run.page_url else ""
    unread = f" · {run.omissions}" if run.omissions else ""
    return f"{text}\n\n<sub>Run `{run.id}`{spent}{page}{unread}</sub>\n{status_marker(run.id)}\n"
