"""Replies to `judge` and `use`, which choose among existing edits."""

from typing import Final, Literal, NamedTuple

from bot.comments.evidence import describe_suite
from bot.comments.evidence_details import render_further
from bot.comments.pull_request import models_note, render_cost
from bot.comments.status import render_status
from bot.comments.unpublished import fold_selection, publish_reason
from bot.comments.vote_table import render_vote_table
from bot.data.failure import SENTENCES
from bot.data.job import Outcome
from bot.data.marks import EDIT_TABLE
from bot.data.run import Run, RunStatus
from bot.errors import SwapRefused
from bot.safe_text import block, code, details, prose
from pipeline.data.suite_reports import TestOutcome
from pipeline.data.types import NoFix, Selection
from pipeline.languages.registry import read_test_outcome
from pipeline.select import Choice
from pipeline.selection.verdict import Judgement, get_votes, name_edits, rank_result, to_letter
from prompts.text import agree, pluralize, shorten


class PullCandidates(NamedTuple):
    """The edits of a run, and which of them its pull request `pull` holds."""

    result: Selection | NoFix
    pull: int | None
    """None after a run without a fix, and while GitHub takes none from us."""
    current: int | None
    """The rank of its edit, from 1; None if the branch has another."""
    closed: Literal["", "closed", "merged"] = ""


_ORDER: Final = "my first choice, then by the scripts passed"


def list_candidates(result: Selection | NoFix, place: int | None = None) -> str:
    """The first 20 edits as `use` names them; rank `place`, from 1, is in the pull request."""
    votes = get_votes(result)
    if votes is None:
        return ""
    words: dict[TestOutcome | None, str] = {
        "fails": ", but fails the reproduction test",
        "not run": ", but the reproduction test could not be run with it",
    }
    known = result.evidence.reproduced if isinstance(result, Selection) else ()
    outcomes = known or (None,) * len(votes.candidates)
    rows = (
        f"- **{to_letter(rank)}** passes {votes.votes(c)} of "
        f"{pluralize(len(votes.tests), 'script')}{words.get(outcomes[c], '')}"
        + (" (in the pull request)" if rank + 1 == place else "")
        for rank, c in enumerate(rank_result(result)[:20])
    )
    return "\n".join(rows)


def candidates_reply(name: str, candidates: PullCandidates) -> str:
    """To `explain`: the edits that `use` can put into the pull request."""
    listed = list_candidates(candidates.result, candidates.current)
    if candidates.pull is not None:
        to = to_letter(min(2, len(rank_result(candidates.result))) - 1)
        how = f"; for example, `/{name} use {to}` puts {to} into it"
        if candidates.current is None:
            how = ". Its branch has been changed since, so that `use` cannot put another into it"
        return f"These are my edits for #{candidates.pull}, {_ORDER}{how}:\n\n{listed}"
    if isinstance(candidates.result, Selection):
        how = f"I could not publish one yet. `/{name} use A` tries again with the first"
    else:
        how = f"none is proven. `/{name} use A` opens an unproven draft with the first"
    return f"These are my edits, {_ORDER}; {how}:\n\n{listed}"


def render_swap(run: Run, number: int, selection: Selection) -> str:
    proof = selection.evidence
    proven = proof.reproduction
    test = {
        "passes": "The reproduction test passes with it and stays.",
        "fails": "The reproduction test fails with it, so I removed the test.",
        "not run": "The reproduction test could not be run with it, so I removed the test.",
    }[read_test_outcome(proven.path, proven.after)]
    if not proven.is_committed:
        test = "It is still unproven."
    if broken := len(proof.suite.broken) if proof.suite else 0:
        tests, verb = pluralize(broken, "test"), agree(broken, "passes", "pass")
        test += f" {tests} of this repository {verb} without it but not with it."
    letter = to_letter(run.candidate - 1)
    return render_status(
        run, f"As @{run.asked_by} asked, #{number} now holds edit {letter}. {test}"
    )


def describe_use(run: Run) -> str:
    """What came of `use`, in a sentence; empty while nothing has. Untrusted."""
    letter = to_letter(run.candidate - 1)
    if run.status is RunStatus.SWAPPED:
        return f"#{run.pull_request} now holds edit {letter}."
    if run.swap_problem is None:
        return ""
    row, said = SENTENCES["no_swap"][run.swap_problem], shorten(run.facts.words, 600)
    return row["sentence"].format(number=run.pull_request, letter=letter, words=said).strip()


def render_no_swap(run: Run, refused: SwapRefused, name: str, told_on: int = 0) -> str:
    """`told_on`: the pull request that has this text with what is long; it is left out here."""
    letter = to_letter(run.candidate - 1)
    if test := refused.test:
        path = code(test.path) if test.is_committed else "(the script alone)"
        why = f"With edit {letter}, the reproduction test {path} could not be run."
        if read_test_outcome(test.path, test.after) == "fails":
            why = f"Edit {letter} fails the reproduction test {path}."
        log = details("Output", block(test.after.output, 4000))
        log = f"#{told_on} has the test's output." if told_on else log
        why += f" `/{name} use {letter} anyway` takes the edit without the test.\n\n{log}"
    elif refused.edit is not None:
        again = f"`/{name} use {letter}` then tries it again, and asks no model for it."
        edit = f"#{told_on} has the edit." if told_on else fold_selection(refused.edit)
        why = "\n\n".join((publish_reason(refused.facts), again, edit))
    else:
        why = SENTENCES["no_swap"][refused.problem]["sentence"].format(
            number=refused.number, letter=letter, words=prose(refused.facts.words, 600)
        )
    return render_status(run, f"I left the pull request unchanged. {why}")


PULL_PROBLEMS: Final = {name: row["sentence"] for name, row in SENTENCES["not_compared"].items()}


def render_verdict(chosen: Outcome[Choice]) -> str:
    choice = chosen.result
    judged, no = choice.judged, choice.no_fix
    none, found = "**I would choose none of them.**", ""
    if no and no.reason == "not sure enough" and no.details:
        found = prose(no.details[0], 600)
    first = _choice_sentence(judged) if no is None else f"{none} {abstention_reason(no)} {found}"
    parts = [first.rstrip(), _tests_sentence(judged, choice.written)]
    parts.append("\n".join(f"- {prose(note, 400)}" for note in judged.verdict.notes[:10]))
    if not no:
        parts.append(_ranking(judged))
    table, standings = judged.table, judged.verdict.standings
    if table.tests and table.candidates:
        parts.append(
            "Tests share a process with the edit that they judge. I run controls that must fail, "
            "but an edit may be written to deceive both: read it before you merge it."
        )
    if table.candidates or table.rejected:
        taken = None if no else judged.chosen
        shown = render_vote_table(table, taken, standings, order=judged.verdict.order)
        parts.append(details(EDIT_TABLE, shown))
        further, order = judged.verdict.further, judged.verdict.order
        parts.append(render_further(further, table, order, 4000))
    parts += [models_note(chosen.accounts), render_cost(chosen.accounts)]
    return "\n\n".join(filter(None, parts))


def render_pull_verdict(run: Run, chosen: Outcome[Choice]) -> str:
    pulls = ", ".join(f"#{number}" for number in run.pulls)
    first = f"I compared {pulls}, as @{run.asked_by} asked, and pushed nothing."
    return render_status(run, f"{first}\n\n{render_verdict(chosen)}")


def abstention_reason(no: NoFix) -> str:
    return SENTENCES["no_fix"][no.reason].get("judged", "None of them is eligible.")


def _choice_sentence(judged: Judgement) -> str:
    verdict, taken = judged.verdict, judged.chosen
    assert taken is not None
    sure = f"I estimate that it is correct with a probability of {verdict.confidence:.0%}."
    name = name_edits(judged.table, verdict.order)[verdict.order[0]]
    text = f"**I would choose {code(name, 80)}.** {prose(verdict.why, 2000)} {sure}"
    if verdict.suite is None:
        problem = prose(verdict.suite_problem, 300)
        return f"{text}\n\nI could not run the repository's own tests with it. {problem}".rstrip()
    return f"{text}\n\n{describe_suite(verdict.suite)}"


def _tests_sentence(judged: Judgement, written: int) -> str:
    tests, edits = len(judged.table.tests), len(judged.table.candidates)
    if not tests:
        return "There was no test to run, so I compared what the edits have in common."
    by = f"{written} written by me" if written else "from the edits or the request"
    return (
        f"I ran {pluralize(tests, 'test')} ({by}) on the unedited code and on "
        f"{pluralize(edits, 'applicable edit')}."
    )


def _ranking(judged: Judgement) -> str:
    order = judged.verdict.order
    called = name_edits(judged.table, order)
    names = [called[c] for c in order[:20]]
    if len(names) < 2:
        return ""
    rows = "\n".join(f"{place}. {code(name, 80)}" for place, name in enumerate(names, 1))
    return f"My order of preference:\n\n{rows}"
