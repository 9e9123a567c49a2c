"""Why a run failed, was stopped, waits, or found no fix."""

import re

from bot.comments.unpublished import publish_reason
from bot.data.failure import NO_FACTS, SENTENCES, Failure, FailureFacts
from bot.data.run import Stop, StopReason
from bot.safe_text import block, code, details, prose
from pipeline.data.types import NoFix, NoFixReason
from pipeline.environment.record import NO_INDEX

LABEL_AGAIN = "add the label again"


def no_fix_headline(result: NoFix, fixed_by: int | None = None) -> str:
    """The first sentences of the status comment of a run without a fix.

    `fixed_by`: the merged pull request that fixed it already.
    """
    reason = no_fix_reason(result.reason)
    if result.fixed_since:
        since = f"Fixed since: {result.fixed_since.commit}"
        if fixed_by:
            since += f", merged with #{fixed_by}"
        return f"I changed nothing. {reason[0].upper()}{reason[1:]}\n\n{since}"
    if result.reason in ("not reproduced", "question", "unclear wish", "not this repository"):
        return f"I changed nothing: {reason}"
    return f"I did not find a fix that I am confident in: {reason}"


def script_headline(result: NoFix) -> str:
    if result.fixed_since:
        return "A script that fails before that commit, and passes since"
    if result.reason == "not reproduced":
        return "A script written from the issue, which passes on the current code"
    return "A script that fails on the current code"


def no_fix_reason(reason: NoFixReason, again: str = LABEL_AGAIN) -> str:
    """Why there is no fix, and what would help; `again` tells how to start another run."""
    return SENTENCES["no_fix"][reason]["sentence"].format(again=again)


def waiting_sentence(reason: Failure) -> str:
    return f"The run is waiting {reason.waiting}."


def failure_reason(failure: Failure, facts: FailureFacts = NO_FACTS) -> str:
    """Why the run failed, and what to do next."""
    said, step = " ".join(facts.words.split()), " ".join(facts.command.split())
    where = "in the settings of the installation"
    if re.fullmatch(r"https?://[\w.:/-]+", facts.accept_at):
        where = f"at <{facts.accept_at}>"
    permission = f"the permission {code(', '.join(facts.permissions))}"
    # Where no lines of `setup` can help, the installer's words say what can.
    advice = "Change that" if "`dockerfile`" in said else "If it installs for you, describe how"
    advice = "When it answers" if NO_INDEX in said else f"{advice} in `.github/capuchin.yml`, then"
    return failure.sentence.format(
        again=LABEL_AGAIN,
        words=f" {prose(said, 1000)}" if said else "",
        what=f": {prose(said, 600)}" if said else ".",
        quote=f" GitHub says: “{prose(said, 300)}”" if said else "",
        permission=permission if facts.permissions else "a permission",
        where=where,
        step=f" {code(step)} failed." if step else "",
        advice=advice,
        log="\n\n" + details("The end of the log", block(facts.log, 3000)) if facts.log else "",
        unpublished=publish_reason(facts),
    )


def stop_reason(stop: Stop) -> str:
    """Completes "I stopped …"; names the person who did it."""
    because = {
        StopReason.COMMAND: "as requested",
        StopReason.UNLABELED: "because the label was removed",
        StopReason.CLOSED: "because the issue was closed",
        StopReason.GONE: "because the issue no longer exists",
        StopReason.NO_ACCESS: "because I had no access to this repository",
        StopReason.DISABLED: f"because the label {code(stop.label)} was added",
    }
    return because[stop.why] + (f" (@{stop.by})" if stop.by else "")
