"""Every sentence the bot says on an issue, one function each. Untrusted values are made inert."""

from __future__ import annotations

from typing import Literal, assert_never, get_args

from bot.comments.stop_reason import why_stopped
from bot.markdown import block, code, details, prose
from bot.storage.progress import Progress
from bot.types import Failure, Mode, Run, StopReason, Wait, changed
from pipeline.types import NoFix, NoFixReason

_LOG = 3000
LABEL_AGAIN = "put the label on again"
NOTHING_SPENT = "I had spent nothing."
NO_FIX_REASONS: tuple[NoFixReason, ...] = get_args(NoFixReason)

Withdrawn = Literal["trust", "disabled"]
"""Why a run that had begun may not go on."""


def status_marker(run_id: str) -> str:
    """What the run's one status comment is found by; shown to nobody."""
    return f"<!-- capuchin:status run={run_id} -->"


def request_marker(run_id: str) -> str:
    """What a run's pull request is found by."""
    return f"<!-- capuchin:run={run_id} -->"


def queued(run: Run, wait: Wait) -> str:
    """The status comment of a run that no worker has time for yet."""
    before = wait.place - 1
    runs = "one run is" if before == 1 else f"{before} runs are"
    turn = f"{runs} before it" if before else "it is next"
    return in_status(
        run,
        f"I will look into this, as @{run.asked_by} asked. It waits its turn: {turn}."
        + (f" I expect to begin {_about(wait.seconds)}." if wait.seconds is not None else ""),
    )


def started(run: Run) -> str:
    """The status comment as it is first written."""
    return in_status(run, _looking(run))


def working(run: Run, progress: Progress) -> str:
    """The status comment while work goes on."""
    counts = " · ".join(
        f"{count} {name if count != 1 else name[:-1]}{said}"
        for count, name, said in (
            (progress.files, "files", " read"),
            (progress.tests, "tests", ""),
            (progress.edits, "edits", ""),
        )
        if count
    )
    said = "\n\n".join(filter(None, (progress.doing, counts)))
    return in_status(
        changed(run, dollars=max(run.dollars, progress.dollars)),
        f"{_looking(run)}\n\n{said}",
    )


def waiting(run: Run, reason: Failure) -> str:
    """The status comment of a run that had begun, while what it needs does not answer."""
    more = "I keep what I have, try again by myself and go on from there."
    return in_status(run, f"{_looking(run)}\n\n{waits_for(reason)} {more}")


def waits_for(reason: Failure) -> str:
    """What a run waits for, in a sentence."""
    model, sandbox = "the language model", "the sandbox that runs the tests"
    what = {Failure.MODEL_UNAVAILABLE: model, Failure.SANDBOX_UNAVAILABLE: sandbox}
    return f"It waits for {what.get(reason, 'GitHub')}, which does not answer now."


def _looking(run: Run) -> str:
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


def opened(run: Run, number: int, *, draft: bool) -> str:
    """The status comment when the pull request is there."""
    please = "It is a draft: please review" if draft else "Please review"
    return in_status(
        run,
        f"I opened #{number} with a test that fails without the change and passes with it. "
        f"{please} it before you merge.",
    )


def no_fix(run: Run, answer: NoFix) -> str:
    """The status comment after an honest no."""
    said = f"I did not find a fix that I can stand behind: {no_fix_reason(answer.reason)}"
    learnt = "\n".join(f"- {prose(sentence, 600)}" for sentence in answer.learnt[:8])
    if learnt:
        said += f"\n\nWhat I learnt on the way:\n\n{learnt}"
    if answer.suspects:
        paths = "\n".join(f"- {code(path)}" for path in answer.suspects[:10])
        said += f"\n\nWhere I suspect the cause, by what the edits change:\n\n{paths}"
    if answer.script:
        script = block(answer.script, 12_000, "python")
        said += f"\n\n{details('A script that fails on the code as it is', script)}"
    return in_status(run, said)


def not_judged(run: Run) -> str:
    """The status comment when pull requests cannot be judged: nothing can be run here."""
    return in_status(run, f"I cannot judge them: {no_fix_reason('no source files')}")


def failed(run: Run, failure: Failure, detail: str = "") -> str:
    """The status comment when the run could not be done; `detail` as in `Run.detail`."""
    return in_status(run, f"I could not work on this: {failure_reason(failure, detail)}")


def withdrawn(run: Run, why: Withdrawn) -> str:
    """The status comment of a run that had begun, and may not go on."""
    because = {
        "trust": f"@{run.asked_by} may no longer ask for it",
        "disabled": "I have been switched off in this repository",
    }
    return in_status(run, f"I stopped working on this: {because[why]}.")


def stopped(run: Run) -> str:
    """The status comment of a run that somebody stopped, with what it had spent."""
    stop = run.stop
    assert stop is not None
    again = LABEL_AGAIN
    if stop.why is StopReason.DISABLED:
        again = "take that label off and ask again"
    spent = f"I had spent ${run.dollars:.2f} at list prices." if run.dollars else NOTHING_SPENT
    return in_status(
        changed(run, dollars=0.0),
        f"I stopped, {why_stopped(stop)}. {spent} If it is wanted after all, {again}.",
    )


def stop_came_late(run: Run, number: int) -> str:
    """The status comment when the pull request was open before the stop was heard."""
    return in_status(
        run,
        f"I had opened #{number} before I was told to stop. Close it if you do not want it; "
        "I shall not touch it.",
    )


def _not_installed(detail: str) -> str:
    """`detail` as `bot.failures.environment_detail` makes it."""
    command, sentence, log = [*detail.split("\n", 2), "", "", ""][:3]
    step = f" {code(command)} failed." if command else ""
    why = f" {prose(sentence, 1000)}" if sentence else ""
    said = (
        f"the repository could not be installed.{step}{why}\n\nIf it installs for you, say how "
        f"in `.github/capuchin.yml`, then {LABEL_AGAIN}."
    )
    if log.strip():
        said += "\n\n" + details("The end of the log", block(log, _LOG))
    return said


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
            return _not_installed(detail)
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


def _about(seconds: float) -> str:
    """When that is from now, as roughly as it is known."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return "within two minutes"
    if minutes < 90:
        return f"in about {minutes} minutes"
    return f"in about {round(minutes / 60)} hours"


def in_status(run: Run, said: str) -> str:
    """The status comment that says `said`, with the run's number, cost, page and marker."""
    spent = f" · ${run.dollars:.2f} at list prices" if run.dollars else ""
    page = f" · [its page]({run.page})" if run.page else ""
    unread = f" · {run.not_read}" if run.not_read else ""
    return f"{said}\n\n<sub>Run `{run.id}`{spent}{page}{unread}</sub>\n{status_marker(run.id)}\n"
