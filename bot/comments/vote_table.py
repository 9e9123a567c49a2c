"""Edits × tests as a Markdown table, the unedited code first, with each edit's standing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bot.safe_text import block, code, details, prose
from pipeline.codebase.text import agree, join_names, pluralize
from pipeline.data.suite_reports import Standing, SuiteReport, TestOutcome
from pipeline.data.types import Candidate, JudgedEdits, VoteTable
from pipeline.reasons import describe_cut
from pipeline.selection.verdict import name_edits, rank_edits, to_letter
from prompts.text import drop_index_lines
from sandbox.program import Ending, Execution

MAX_CELLS = 600
"""A larger table shows only the sums."""
MAX_DIFFS = 10
"""How many edits are shown as diffs."""
EDIT_CHARACTERS = 40_000
"""Of all diffs of one comment together."""
MAX_EDITS = 20
_WIDER_TEST = (
    "The reproduction test is that of the chosen edit, and may ask for more than the issue does: "
    "❌ there does not show that another edit is wrong."
)
_HOW: Mapping[str, str] = {"explore": "exploring", "fixed": "fixed context"}
"""How an edit was made, by its machine."""
_NO_RESULT: Mapping[str, str] = {"breaks": "not compared"}
_OUTCOMES: Mapping[TestOutcome | None, str] = {"passes": "✅", "fails": "❌", "not run": "not run"}


def render_vote_table(
    table: VoteTable,
    chosen: Candidate | None,
    standings: Sequence[Standing] = (),
    *,
    order: Sequence[int] = (),
    reproduced: Sequence[TestOutcome | None] = (),
) -> str:
    """Edits by tests, A first and `chosen` in bold; edits that do not apply are listed below.

    `standings` (one for each candidate) add, as far as they are known: which edits are the same
    code, how many of the repository's tests break, the reward model's score.
    `order` decides who is A; `reproduced` (one for each candidate) says how the reproduction test
    ends.
    """
    names = [_name(candidate, name) for candidate, name in _with_names(table, order)]
    count = len(table.tests)
    shown = range(count if (len(table.candidates) + 1) * count <= MAX_CELLS else 0)
    ranked = _rank_rows(table, order)
    columns = {**_makers(table), **_columns(names, standings, reproduced, ranked)}
    heads = ["", *(_test_heading(table, t) for t in shown), "passes", *columns]
    rows = [
        f"|{' |'.join(f' {head}'.rstrip() for head in heads)} |",
        "|---|" + ":-:|" * (len(heads) - 1),
        _render_row("unedited code", table.base, shown, ["" for _ in columns]),
    ]
    for c in ranked:
        same = 1 if table.candidates[c].source else _count_same(table, c)
        name = f"{names[c]} ({same} times)" if same > 1 else names[c]
        is_chosen = chosen is not None and table.candidates[c].patch == chosen.patch
        bold = f"**{name} (chosen)**" if is_chosen else name
        rows.append(
            _render_row(bold, table.runs[c], shown, [cells[c] for cells in columns.values()])
        )
    rejected = [f"- {code(r.name, 80)} does not apply: {code(r.why, 300)}" for r in table.rejected]
    notes = [_WIDER_TEST] if _fails_with_another(table, chosen, reproduced) else []
    below = [["", *lines] for lines in (notes, rejected) if lines]
    return "\n".join([*rows, *(line for lines in below for line in lines)])


def render_diffs(
    table: VoteTable,
    order: Sequence[int],
    characters: int,
    standings: Sequence[Standing] = (),
) -> str:
    """The diff of each edit, folded, A first; each is cut to `characters`.

    Of edits that `standings` call equal, only the first is shown, with the names of the others.
    """
    names = [_name(candidate, name) for candidate, name in _with_names(table, order)]
    groups = _group_equal(rank_edits(table, order), standings)
    shown = groups[:MAX_DIFFS]
    parts = [
        details(
            f"Edit {names[c]}, as a diff{_equal_words([names[other] for other in others])}",
            _render_diff(table.candidates[c], characters),
        )
        for c, *others in shown
    ]
    more = sum(map(len, groups[MAX_DIFFS:]))
    return "\n".join([*parts, *([f"\nAnd {pluralize(more, 'further edit')}."] if more else [])])


def _render_diff(candidate: Candidate, characters: int) -> str:
    return block(drop_index_lines(candidate.patch.diff), characters, "diff")


def _group_equal(ranked: Sequence[int], standings: Sequence[Standing]) -> list[list[int]]:
    """The ranked edits, those together that are equal after normalisation, if that is known."""
    groups: dict[int, list[int]] = {}
    for c in ranked:
        groups.setdefault(standings[c].same_as if standings else c, []).append(c)
    return list(groups.values())


def _equal_words(names: Sequence[str]) -> str:
    """That the edits of these names are the same as the one before; empty if there are none."""
    if not names:
        return ""
    return f"; {join_names(names)} {agree(len(names), 'is', 'are')} the same code"


def _rank_rows(table: VoteTable, order: Sequence[int]) -> list[int]:
    """The edits, best first: of our own one for each diff, of other people's all."""
    ranked = rank_edits(table, order)
    diffs = [table.candidates[c].patch.diff for c in ranked]
    sources = [c for c, one in enumerate(table.candidates) if one.source and c not in ranked]
    return sorted(
        [*ranked, *sources], key=lambda c: (diffs.index(table.candidates[c].patch.diff), c)
    )


def _with_names(table: VoteTable, order: Sequence[int]) -> list[tuple[Candidate, str]]:
    return list(zip(table.candidates, name_edits(table, order), strict=True))


def _name(candidate: Candidate, name: str) -> str:
    return code(name, 80) if candidate.source else name


def _count_same(table: VoteTable, candidate: int) -> int:
    diff = table.candidates[candidate].patch.diff
    return sum(other.patch.diff == diff for other in table.candidates)


def _columns(
    names: Sequence[str],
    standings: Sequence[Standing],
    reproduced: Sequence[TestOutcome | None],
    rows: Sequence[int],
) -> dict[str, list[str]]:
    """Extra columns by heading; a column without any value is left out."""
    known = {
        "reproduction test": [outcome and _OUTCOMES[outcome] for outcome in reproduced],
        "same code as": [_list_equal(c, names, standings, rows) for c in range(len(standings))],
        "breaks": [_count_broken(s) for s in standings],
        "reward": ["" if s.reward is None else f"{s.reward:.2f}" for s in standings],
    }
    return {
        head: [_NO_RESULT.get(head, "not run") if cell is None else cell for cell in cells]
        for head, cells in known.items()
        if any(cells)
    }


def _count_broken(standing: Standing) -> str | None:
    """How many of the repository's tests it breaks; None if it was not compared by any."""
    if standing.near is not None:
        return f"{standing.near} (only tests near it were run)"
    return None if standing.broken is None else str(len(standing.broken))


def _fails_with_another(
    table: VoteTable, chosen: Candidate | None, reproduced: Sequence[TestOutcome | None]
) -> bool:
    """Whether the reproduction test fails with an edit that was not chosen."""
    if chosen is None or not reproduced:
        return False
    ends = zip(table.candidates, reproduced, strict=True)
    return any(end == "fails" and one.patch != chosen.patch for one, end in ends)


def _list_equal(
    candidate: int, names: Sequence[str], standings: Sequence[Standing], rows: Sequence[int]
) -> str:
    """The other edits that are the same code as this one, by name."""
    same = [names[c] for c in rows if standings[c].same_as == standings[candidate].same_as]
    return ", ".join(name for name in dict.fromkeys(same) if name != names[candidate])


def _makers(table: VoteTable) -> dict[str, list[str]]:
    """Which machines and models made each edit, equal ones included, where there are several."""
    ours = {one.origin for one in table.candidates if one.machine}
    if len(ours) < 2:
        return {}
    makers: dict[str, list[str]] = {}
    for one in table.candidates:
        if one.machine:
            how = _HOW.get(one.machine, one.machine)
            makers.setdefault(one.patch.diff, []).append(f"{how}, {code(one.model, 60)}")
    named = {diff: "; ".join(dict.fromkeys(found)) for diff, found in makers.items()}
    return {"made by": [named.get(one.patch.diff, "") for one in table.candidates]}


def _test_heading(table: VoteTable, test: int) -> str:
    return f"script {test + 1}{' (flaky)' if test in table.flaky else ''}"


def _render_row(name: str, runs: Sequence[Execution], shown: range, more: Sequence[str]) -> str:
    passes = sum(run.passed for run in runs)
    return f"| {' | '.join([name, *(_cell(runs[t]) for t in shown), str(passes), *more])} |"


def _cell(run: Execution) -> str:
    if run.passed:
        return "✅"
    if run.ending is Ending.TIMEOUT:
        return "⏱"
    # Exit code 2 means that the issue is still present; any other, that the test itself broke.
    return "❌" if run.exit_code == 2 else "💥"


def render_edits(edits: JudgedEdits, command: str = "") -> str:
    """Folded: the edit that would have been proposed, and every other.

    `command` is the beginning of the comment that opens one of them, such as `/capuchin use`.
    """
    shown = edits.order[:MAX_EDITS]
    characters = max(400, EDIT_CHARACTERS // max(1, len(shown)))
    best = details("A: the edit I would have proposed", _render_edit(edits, 0, characters))
    others = [
        details(f"Edit {to_letter(at)}", _render_edit(edits, at, characters))
        for at in range(1, len(shown))
    ]
    table = details(
        "Edits × tests", render_vote_table(edits.votes, None, edits.standings, order=edits.order)
    )
    how = (
        f"`{command} A` opens an unproven draft pull request with edit A"
        + ("; another letter takes another edit." if others else ".")
        if command
        else ""
    )
    facts = " ".join(filter(None, (_confidence_sentence(edits), suite_sentence(edits), how)))
    return "\n\n".join(filter(None, (facts, best, *others, table)))


def _render_edit(edits: JudgedEdits, rank: int, characters: int) -> str:
    at = edits.order[rank]
    votes = edits.votes
    groups = _group_equal(edits.order, edits.standings)
    first = next(group[0] for group in groups if at in group)
    passed = f"It passes {votes.votes(at)} of {pluralize(len(votes.tests), 'script')}"
    broken = edits.standings[at].broken if edits.standings else None
    breaks = ""
    if broken is not None:
        breaks = f"; it breaks {pluralize(len(broken), 'test')} of this repository"
    text = f"{passed}{breaks}.\n\n{_render_diff(votes.candidates[at], characters)}"
    if first != at:
        text = (
            f"{passed}{breaks}. It is the same code as edit {to_letter(edits.order.index(first))}."
        )
    return text if not broken else f"{text}\n\n{_render_broken(broken)}"


def _render_broken(names: Sequence[str]) -> str:
    return f"These tests pass without it but not with it:\n\n{block(chr(10).join(names), 1000)}"


def _confidence_sentence(edits: JudgedEdits) -> str:
    if edits.confidence is None:
        return ""
    return f"I estimate that edit A is correct with a probability of {edits.confidence:.0%}."


def suite_sentence(edits: JudgedEdits) -> str:
    """What the repository's own tests say of the best edit, or why they say nothing."""
    if edits.suite is not None:
        return _count_sentence(edits.suite)
    if edits.suite_problem:
        return f"This repository's own tests could not be run: {prose(edits.suite_problem, 500)}"
    return ""


def _count_sentence(suite: SuiteReport) -> str:
    before = len(suite.before.passed)
    verb = agree(before, "passes", "pass")
    text = (
        f"Of this repository's own tests, {before:,} {verb} without edit A and "
        f"{len(suite.passed_after):,} with it; "
        f"it breaks {len(suite.broken)}."
    )
    return f"{text} {describe_cut(suite)}".rstrip()
