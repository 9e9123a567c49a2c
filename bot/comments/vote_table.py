"""Edits × scripts as a Markdown table, the unedited code first, with each edit's standing."""

from collections.abc import Sequence

from bot.data.marks import (
    CHOSEN,
    EDIT_TABLE,
    FAILS,
    REPRODUCTION_TEST,
    UNEDITED,
    mark_script,
    mark_test,
)
from bot.safe_text import block, code, details, prose
from pipeline.data.suite_reports import Standing, SuiteReport, TestOutcome
from pipeline.data.types import Candidate, JudgedEdits, Selection, VoteTable
from pipeline.reasons import describe_cut
from pipeline.selection.verdict import name_edits, rank_edits, to_letter
from prompts.text import agree, drop_index_lines, join_names, pluralize
from sandbox.program import Execution

_COLUMNS = {
    "same code as": "equal but for comments, formatting and local names",
    "breaks": "tests of the repository that pass without the edit and not with it",
}
"""What the headings of columns mean."""


def render_vote_table(
    table: VoteTable,
    chosen: Candidate | None,
    standings: Sequence[Standing] = (),
    *,
    order: Sequence[int] = (),
    reproduced: Sequence[TestOutcome | None] = (),
) -> str:
    """Edits by tests, A first and `chosen` in bold; edits that do not apply are listed below.

    `standings` (one for each candidate) add, where known, which edits are the same code, how many
    of the repository's tests they break, and the reward model's scores. `order` ranks the edits
    from A; `reproduced` (one for each candidate) is the result of the reproduction test.
    """
    names = _list_names(table, order)
    count = len(table.tests)
    # A larger table shows only the sums.
    shown = range(count if (len(table.candidates) + 1) * count <= 600 else 0)
    ranked = _rank_rows(table, order)
    columns = {**_makers(table), **_columns(names, standings, reproduced, ranked)}
    scripts = (f"script {t + 1}{_tell_kind(table, t)}" for t in shown)
    heads = ["", *scripts, "passes", *columns]
    rows = [
        f"|{' |'.join(f' {head}'.rstrip() for head in heads)} |",
        "|---|" + ":-:|" * (len(heads) - 1),
        _render_row(UNEDITED, table.base, shown, ["" for _ in columns]),
    ]
    for c in ranked:
        patch = table.candidates[c].patch
        same = sum(one.patch.diff == patch.diff for one in table.candidates)
        if table.candidates[c].source:
            same = 1
        name = f"{names[c]} ({same} times)" if same > 1 else names[c]
        is_chosen = chosen is not None and patch == chosen.patch
        bold = f"**{name} ({CHOSEN})**" if is_chosen else name
        rows.append(
            _render_row(bold, table.runs[c], shown, [cells[c] for cells in columns.values()])
        )
    rejected = [f"- {code(r.name, 80)} is left out: {code(r.why, 300)}" for r in table.rejected]
    notes: list[str] = []
    ends = zip(table.candidates, reproduced, strict=bool(reproduced))
    if chosen and any(end == "fails" and one.patch != chosen.patch for one, end in ends):
        notes.append(
            "The reproduction test belongs to the chosen edit, and may ask for more than the issue "
            f"does: {FAILS.sign} there does not show that another edit is wrong."
        )
    signs = [mark_script(run) for runs in (table.base, *table.runs) for run in runs]
    signs += [mark_test(end) for end in reproduced]
    legend = {mark.sign: mark.words for mark in signs if mark.sign} if shown else {}
    explained = [f"{sign} {words}" for sign, words in legend.items()]
    explained += [f"*{head}*: {words}" for head, words in _COLUMNS.items() if head in columns]
    legends = [" · ".join(explained)] if explained else []
    below = [["", *lines] for lines in (legends, notes, rejected) if lines]
    return "\n".join([*rows, *(line for lines in below for line in lines)])


def fold_votes(result: Selection) -> str:
    """The votes on the edits of a run, folded, with the chosen one."""
    proof = result.evidence
    shown = render_vote_table(
        proof.votes,
        result.candidate,
        proof.standings,
        order=proof.order,
        reproduced=proof.reproduced,
    )
    return details(EDIT_TABLE, shown)


def _tell_kind(table: VoteTable, test: int) -> str:
    if test in table.flaky:
        return " (flaky)"
    return " (checklist)" if test == table.checklist else ""


def render_diffs(
    table: VoteTable, order: Sequence[int], characters: int, standings: Sequence[Standing] = ()
) -> str:
    """The diffs of the ten best edits, folded; each is cut to `characters`.

    Of edits that are equal according to `standings`, only the first is shown, with all names.
    """
    names = _list_names(table, order)
    groups = _group_equal(rank_edits(table, order), standings)
    parts: list[str] = []
    for c, *others in groups[:10]:
        title = f"Edit {names[c]}, as a diff"
        if others:
            equal = join_names([names[other] for other in others])
            title += f"; {equal} {agree(len(others), 'is', 'are')} the same code"
        parts.append(details(title, _render_diff(table.candidates[c], characters)))
    more = sum(map(len, groups[10:]))
    return "\n".join([*parts, *([f"\nAnd {pluralize(more, 'further edit')}."] if more else [])])


def _render_diff(candidate: Candidate, characters: int) -> str:
    """The diff, after what its sample left about it, if that has room."""
    diff = block(drop_index_lines(candidate.patch.diff), characters, "diff")
    if not candidate.summary:
        return diff
    left = block(candidate.summary, min(1000, characters), "text")
    return f"What its sample left, in the model's words and by its record:\n\n{left}\n\n{diff}"


def _group_equal(ranked: Sequence[int], standings: Sequence[Standing]) -> list[list[int]]:
    """The ranked edits, grouped by equality after normalisation if it is known."""
    groups: dict[int, list[int]] = {}
    for c in ranked:
        groups.setdefault(standings[c].same_as if standings else c, []).append(c)
    return list(groups.values())


def _rank_rows(table: VoteTable, order: Sequence[int]) -> list[int]:
    """The edits, best first: one of our own for each diff, and all by other people."""
    ranked = rank_edits(table, order)
    diffs = [table.candidates[c].patch.diff for c in ranked]
    sources = [c for c, one in enumerate(table.candidates) if one.source and c not in ranked]
    return sorted(
        [*ranked, *sources], key=lambda c: (diffs.index(table.candidates[c].patch.diff), c)
    )


def _list_names(table: VoteTable, order: Sequence[int]) -> list[str]:
    named = zip(table.candidates, name_edits(table, order), strict=True)
    return [code(name, 80) if candidate.source else name for candidate, name in named]


def _columns(
    names: Sequence[str],
    standings: Sequence[Standing],
    reproduced: Sequence[TestOutcome | None],
    rows: Sequence[int],
) -> dict[str, list[str]]:
    """Extra columns by heading, without empty ones."""
    known = {
        REPRODUCTION_TEST: [outcome and mark_test(outcome).sign for outcome in reproduced],
        "same code as": [_list_equal(c, names, standings, rows) for c in range(len(standings))],
        "breaks": [_count_broken(s) for s in standings],
        "reward": ["" if s.reward is None else f"{s.reward:.2f}" for s in standings],
    }
    return {
        head: [
            cell if cell is not None else "not compared" if head == "breaks" else "not run"
            for cell in cells
        ]
        for head, cells in known.items()
        if any(cells)
    }


def _count_broken(standing: Standing) -> str | None:
    """How many of the repository's tests it breaks; None if they did not run with it."""
    if standing.near is not None:
        return f"{standing.near} (of the tests near it)"
    return None if standing.broken is None else str(len(standing.broken))


def _list_equal(
    candidate: int, names: Sequence[str], standings: Sequence[Standing], rows: Sequence[int]
) -> str:
    """The other edits that are the same code as this one, by name."""
    same = [names[c] for c in rows if standings[c].same_as == standings[candidate].same_as]
    return ", ".join(name for name in dict.fromkeys(same) if name != names[candidate])


def _makers(table: VoteTable) -> dict[str, list[str]]:
    """The machines and models that made each edit or an equal one; empty if all are the same."""
    words = {"explore": "exploring", "fixed": "fixed context"}
    ours = {one.origin for one in table.candidates if one.machine}
    if len(ours) < 2:
        return {}
    makers: dict[str, list[str]] = {}
    for one in table.candidates:
        if one.machine:
            how = words.get(one.machine, one.machine)
            makers.setdefault(one.patch.diff, []).append(f"{how}, {code(one.model, 60)}")
    named = {diff: "; ".join(dict.fromkeys(found)) for diff, found in makers.items()}
    return {"made by": [named.get(one.patch.diff, "") for one in table.candidates]}


def _render_row(name: str, runs: Sequence[Execution], shown: range, more: Sequence[str]) -> str:
    passes = sum(run.passed for run in runs)
    return (
        f"| {' | '.join([name, *(mark_script(runs[t]).sign for t in shown), str(passes), *more])} |"
    )


def render_edits(edits: JudgedEdits, command: str = "") -> str:
    """The edits, folded, best first.

    `command` is the beginning of a comment that opens one of them, such as `/capuchin use`.
    """
    shown = edits.order[:20]
    characters = max(400, 40_000 // max(1, len(shown)))
    best = details("A: the edit I would have proposed", _render_edit(edits, 0, characters))
    others = [
        details(f"Edit {to_letter(at)}", _render_edit(edits, at, characters))
        for at in range(1, len(shown))
    ]
    table = details(
        EDIT_TABLE, render_vote_table(edits.votes, None, edits.standings, order=edits.order)
    )
    how = (
        f"`{command} A` opens an unproven draft pull request with edit A"
        + ("; another letter takes another edit." if others else ".")
        if command
        else ""
    )
    sure = ""
    if edits.confidence is not None:
        sure = f"I estimate that edit A is correct with a probability of {edits.confidence:.0%}."
    suite = ""
    if edits.suite is not None:
        suite = _count_sentence(edits.suite)
    elif edits.suite_problem:
        problem = prose(edits.suite_problem, 500)
        suite = f"This repository's own tests could not be run: {problem}"
    facts = " ".join(filter(None, (sure, suite, how)))
    return "\n\n".join(filter(None, (facts, best, *others, table)))


def _render_edit(edits: JudgedEdits, rank: int, characters: int) -> str:
    at = edits.order[rank]
    votes = edits.votes
    groups = _group_equal(edits.order, edits.standings)
    first = next(group[0] for group in groups if at in group)
    text = f"It passes {votes.votes(at)} of {pluralize(len(votes.tests), 'script')}"
    broken = edits.standings[at].broken if edits.standings else None
    if broken is not None:
        text += f"; it breaks {pluralize(len(broken), 'test')} of this repository"
    if first == at:
        text += f".\n\n{_render_diff(votes.candidates[at], characters)}"
    else:
        text += f". It is the same code as edit {to_letter(edits.order.index(first))}."
    if broken:
        names = block("\n".join(broken), 1000)
        text += f"\n\nThese tests pass without it but not with it:\n\n{names}"
    return text


def _count_sentence(suite: SuiteReport) -> str:
    before = len(suite.before.passed)
    verb = agree(before, "passes", "pass")
    text = (
        f"Of this repository's own tests, {before:,} {verb} without edit A and "
        f"{len(suite.passed_after):,} with it; "
        f"it breaks {len(suite.broken)}."
    )
    return f"{text} {describe_cut(suite)}".rstrip()
