"""Why the bot does not start a run, or ends one early: status comments, and replies to people."""

from collections.abc import Iterator, Sequence

from bot.comments.failures import LABEL_AGAIN
from bot.comments.status import render_status
from bot.data.github_facts import ExistingWork
from bot.data.refusal import OptOut, Refusal, Stranger
from bot.data.run import Login, QuotaLimit, Run, is_app
from bot.safe_text import code
from prompts.text import pluralize


def render_refusal(run: Run, refusal: Refusal, name: str) -> str:
    """The status comment of a refused run; empty where it gets none.

    `name` is what commands begin with, empty where nobody hears any.
    """
    match refusal:
        case OptOut(label=label):
            text = (
                f"I will not work on this because it has the label {code(label)}. If you want me "
                "to, remove that label and ask again."
            )
        case ExistingWork():
            text = _existing_work(run, refusal, name)
        case "edited":
            text = (
                "The title or text of this issue was edited after the request, and I never "
                f"received the earlier version, so I have not started. @{run.asked_by}, if you "
                f"want me to work on the current version, {LABEL_AGAIN}. I have spent nothing so "
                "far."
            )
        case "only pictures":
            text = (
                "This issue is nothing but pictures or attached files that I could not read, so I "
                f"have not started. @{run.asked_by}, please paste the text that matters, such as "
                f"the error, into the issue, then {LABEL_AGAIN}. I have spent nothing so far."
            )
        case Stranger() if run.is_announced:
            text = (
                f"I stopped working on this because @{run.asked_by} no longer has permission to "
                "start me."
            )
        case "switched off" if run.is_announced:
            text = "I stopped working on this because I have been disabled in this repository."
        case _:
            return ""
    return render_status(run, text)


def _existing_work(run: Run, work: ExistingWork, name: str) -> str:
    seen = list(_signs(work))
    if not seen:
        number = work.ours[-1].number
        if not name:
            return (
                f"I have #{number} open for this. To have me start again, close it, then "
                f"{LABEL_AGAIN}. I have spent nothing so far."
            )
        return (
            f"I have #{number} open for this. `/{name} retry anyway` starts again, and closes "
            f"#{number} once there is a new pull request; `/{name} use B` puts another of my edits "
            f"into it; a review of #{number} changes it. I have spent nothing so far."
        )
    seen += [f"I have #{pull.number} open for this" for pull in work.ours]
    listed = "\n".join(f"- {sign}" for sign in seen)
    how = f"if you want me to work on it anyway, {LABEL_AGAIN} or write `/{name} fix anyway`"
    if not name:
        how = f"once nothing of that holds any more, {LABEL_AGAIN}"
    return (
        f"I have not started: somebody seems to be working on this already.\n\n{listed}\n\n"
        f"@{run.asked_by}, {how}. I have spent nothing so far."
    )


def _signs(work: ExistingWork) -> Iterator[str]:
    if work.locked:
        yield "the conversation is locked"
    if work.assignees:
        yield f"it is assigned to {', '.join(map(code, work.assignees))}"
    for pull in work.pulls:
        yield (
            f"the open pull request #{pull.number} by {code(pull.author)} says that it fixes this "
            "issue"
        )
    if work.branches:
        yield f"there are branches named after this issue: {', '.join(map(code, work.branches))}"


def refusal_marker(login: Login) -> str:
    return (
        f"<!-- capuchin:refused login={''.join(c for c in login if c.isalnum() or c in '-_')} -->"
    )


def refusal_reply(login: Login, refusal: Stranger | QuotaLimit, *, deferred: bool = False) -> str:
    """To somebody who may not start a run, now or ever; posted once a day for each person.

    `deferred`: what they wrote is answered tomorrow.
    """
    match refusal:
        case Stranger() if is_app(login):
            return (
                f"{code(login)} added my label, but I do not start for Apps unless `trust` in my "
                f'settings file names them: `"{login}"`. A maintainer can add the label instead.'
                f"\n\n{refusal_marker(login)}\n"
            )
        case Stranger(trust=trust):
            text = f"I only work for {_who_may_ask(trust)}; a maintainer can add the label instead."
        case QuotaLimit():
            then = "I will respond to this tomorrow." if deferred else "Please ask again tomorrow."
            runs = pluralize(refusal.runs, "run")
            text = f"Today's quota of {runs} for one person is used up. {then}"
    return f"Thank you, @{login}. {text}\n\n{refusal_marker(login)}\n"


def _who_may_ask(trust: Sequence[str]) -> str:
    words = {word.casefold() for word in trust}
    if "triage" in words:
        return "people who can triage issues in this repository"
    if "write" in words:
        return "people who can push to this repository"
    return "the people whom this repository's maintainers have listed"
