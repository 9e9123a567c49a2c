"""Explains a choice in sentences of our own. Names of tests in them are untrusted."""

from collections.abc import Mapping, Sequence

from pipeline.data.suite_reports import FurtherScript, Reason, Standing, TestOutcome
from pipeline.data.types import NOT_FIXED, VoteTable
from pipeline.regression.compare import CONTROL
from pipeline.selection.methods import behaving_alike, likeliest_alike
from pipeline.selection.scoring.features import measure_extent
from pipeline.selection.scoring.standings import Standings
from pipeline.selection.verdict import Judgement, Verdict, name_edits
from prompts.text import agree, join_names, pluralize, shorten, strip_ansi
from sandbox.program import Execution

_MAX_TESTS_NAMED = 10
_OUTPUT = 1500
_NO_VERDICT = ("ends without a verdict", "end without a verdict")
_ENDS = {0: ("passes", "pass"), NOT_FIXED: ("fails", "fail"), None: _NO_VERDICT}
"""The verbs for one edit and for several, by the script's exit code."""
_ALIKE = "behave alike in all that was run with them"
_METHODS = {
    "voting": "The chosen edit passes the most tests.",
    "exec": "The chosen edit is among those that pass their test and break nothing.",
    "orm_exec": "The chosen edit is among those that pass their test and break nothing.",
    "dev_search": "The chosen edit passes the most tests, including the repository's own.",
    "ast_voting": "Most edits make the same change as the chosen one.",
    "evidence": "The evidence decided: the scripts, the repository's tests and the other edits.",
}


def explain_choice(
    standings: Standings, verdict: Verdict, reproduced: Sequence[TestOutcome | None] = ()
) -> str:
    """Which edits were passed over, who decided, and the evidence for the first of
    `verdict.order`. `reproduced`: by candidate, how the reproduction test ended."""
    chosen = verdict.order[0]
    alike = _describe_alike(standings, verdict) if verdict.method == "evidence" else ""
    names = name_edits(standings.table, verdict.order)
    described = _describe_evidence(standings, chosen, names, reproduced, alike=alike)
    decision = _describe_decision(standings, verdict)
    return " ".join(filter(None, (*verdict.passed_over, decision, alike, described)))


def explain_with_reproduction(judged: Judgement, outcomes: Sequence[TestOutcome | None]) -> str:
    """The explanation of a verdict, after the reproduction test ran with the other edits, too.

    `outcomes`: one for each candidate; None: it was not tried with it.
    """
    if judged.standings is None:
        return judged.verdict.why
    return explain_choice(judged.standings.split_alike(outcomes), judged.verdict, outcomes)


def _describe_evidence(
    standings: Standings,
    candidate: int,
    names: Sequence[str],
    reproduced: Sequence[TestOutcome | None],
    *,
    alike: str,
) -> str:
    """The evidence about one candidate; `alike` is what was said of those that behave alike."""
    stands, name = standings.entries[candidate], _call(standings.table, candidate, names)
    scripts = len(standings.voters)
    if not standings.table.candidates[candidate].source:
        name = name.replace("edit", "Edit", 1)
    parts = [f"{name} passes {_describe_share(stands.passes, scripts)} that report the issue"]
    if not scripts:
        parts = ["No script reports the issue"]
    if scripts == 1:
        verb = "passes" if stands.passes else "fails"
        parts = [f"{name} {verb} the one script that reports the issue"]
    parts += _describe_failed_by_all(standings, scripts - stands.passes)
    parts += _describe_others(standings, candidate, names, reproduced, alike=alike)
    if stands.broken is not None:
        some = f"{pluralize(len(stands.broken), 'test')} of the repository"
        some += "" if standings.breaks(candidate) else ", as other edits do"
        none = "none of the repository's tests that were run"
        parts.append(f"it breaks {some if stands.broken else none}")
    return "; ".join(parts) + "."


def _call(table: VoteTable, candidate: int, names: Sequence[str]) -> str:
    name = names[candidate]
    return name if table.candidates[candidate].source else f"edit {name}"


def _describe_others(
    standings: Standings,
    candidate: int,
    names: Sequence[str],
    reproduced: Sequence[TestOutcome | None],
    *,
    alike: str,
) -> list[str]:
    """How many of the other edits support this one, unless `alike` says it."""
    table, stands = standings.table, standings.entries[candidate]
    count = len(standings.entries) - len(table.taken_over)
    group = behaving_alike(standings, candidate)
    is_said = _is_favoured_by_agreement(standings, candidate) or stands.support in (1, len(group))
    if alike and is_said:
        rest = {names[c]: c for c in range(len(names)) if c not in group}
        return [
            f"edit {name} {_describe_difference(standings, candidate, c, reproduced)}"
            for name, c in sorted(rest.items())
        ]
    if count == 2:
        how = "makes the same change" if stands.support > 1 else "is written differently"
        return [f"the other edit {how}"]
    same = [c for c, one in enumerate(standings.entries) if one.same_as == stands.same_as]
    equal = len([c for c in same if c not in table.taken_over and c != candidate])
    if count > 2 and equal:
        verb, rest = agree(equal, "makes", "make"), count - 1
        everyone = "both" if rest == 2 else f"all {rest}"
        which = f"{everyone if equal == rest else f'{equal} of the {rest}'} other edits"
        return [f"{which} {verb} the same change"]
    return ["no other edit makes the same change"] if count > 2 else []


def _describe_difference(
    standings: Standings, chosen: int, candidate: int, reproduced: Sequence[TestOutcome | None]
) -> str:
    entry = standings.entries[candidate]
    if standings.breaks(candidate) or entry.near:
        return "breaks tests of the repository"
    mine, its = standings.table.runs[chosen], standings.table.runs[candidate]
    failed = [
        str(test + 1) for test in standings.voters if mine[test].passed and not its[test].passed
    ]
    if failed:
        return f"fails {agree(len(failed), 'script', 'scripts')} {join_names(failed)}"
    if entry.fails:
        return "fails tests that other edits bring"
    if reproduced and reproduced[candidate] is None:
        return "was not run with the reproduction test"
    apart = reproduced and reproduced[candidate] != reproduced[chosen]
    return f"behaves differently in {'the reproduction test' if apart else 'a script'}"


def _describe_failed_by_all(standings: Standings, missing: int) -> list[str]:
    """That no edit passes some of the `missing` scripts that one edit fails: these may expect too
    much."""
    runs = standings.table.runs
    failed = sum(not any(row[test].passed for row in runs) for test in standings.voters)
    if not failed or len(runs) < 2 or len(standings.voters) < 2:
        return []
    others = "the other" if missing == 1 else "the others"
    return [f"no edit passes {others if failed == missing else f'{failed} of {others}'}"]


def _describe_share(passes: int, scripts: int) -> str:
    if passes < scripts:
        return f"{passes} of the {scripts} scripts"
    return "both scripts" if scripts == 2 else f"all {scripts} scripts"


def explain_skipped(name: str, broken: Sequence[str]) -> str:
    """Why the edit `name`, although ranked higher, was not proposed."""
    if not broken:
        return f"{name} came first, but passes no test that fails without it."
    if CONTROL in broken:
        return f"{name} came first, but its results do not count, because of {CONTROL}."
    tests = join_names(broken, _MAX_TESTS_NAMED)
    return f"{name} came first, but breaks tests that pass now: {tests}."


def tell_outdated(standings: Standings, chosen: int) -> list[str]:
    """What the edit `chosen` breaks although it may be proposed. Untrusted."""
    broken = standings.entries[chosen].broken
    if not broken:
        return []
    this, it = agree(len(broken), "this test", "these tests"), agree(len(broken), "It", "They")
    return [
        "At least half of the different edits that pass a script of the issue, this one among "
        f"them, break {this} of the repository: {join_names(broken, _MAX_TESTS_NAMED)}. "
        f"{it} may ask for what the issue changes."
    ]


def _describe_alike(standings: Standings, verdict: Verdict) -> str:
    """Which others behave like the chosen one, and why it was preferred unless a model chose it;
    empty if there are none."""
    candidate = verdict.order[0]
    group = behaving_alike(standings, candidate)
    diffs = {standings.table.candidates[c].patch.diff for c in group}
    if len(diffs) < 2:
        return ""
    edits = len({standings.entries[c].same_as for c in group})
    if edits == 1:
        alike = f"{len(group)} edits make the same change"
    elif edits == len(diffs):
        alike = f"{edits} different edits {_ALIKE}"
    else:
        alike = f"{len(group)} samples wrote {edits} different edits, which {_ALIKE}"
    why = _describe_preference(standings, candidate)
    # How many agree is a fact, if not the reason.
    if verdict.decided_by in ("model", "reward model") and edits > 1:
        why = why[:1] if _is_favoured_by_agreement(standings, candidate) else []
    return "; ".join([alike, *why]) + "."


def _describe_preference(standings: Standings, candidate: int) -> list[str]:
    """What puts it before those that behave alike: the checklist, agreement, then its extent."""
    group = behaving_alike(standings, candidate)
    likely = likeliest_alike(standings, candidate)
    if candidate not in likely:
        return []
    favoured: list[str] = []
    entries = standings.entries
    covering = [c for c in group if entries[c].covers == entries[candidate].covers]
    if (count := len(covering)) < len(group):
        does = agree(count, "changes", "change")
        favoured = [f"{count} {does} more of the files on the checklist than the others"]
    if len(likely) < len(covering):
        if _is_favoured_by_agreement(standings, candidate):
            favoured += [f"{len(likely)} of them make the same change, this one"]
        elif len(likely) > 1:
            count = len(likely)
            favoured += [f"the texts of {count} of them are most like edits known to be right"]
        else:
            favoured += ["the text of this one is most like edits known to be right"]
    diffs = {standings.table.candidates[c].patch.diff for c in likely}
    if len(diffs) < 2:
        return favoured
    own = standings.table.candidates[candidate].patch.diff
    kinds = measure_extent(own).companions
    others = [measure_extent(diff).companions for diff in diffs - {own}]
    which = "the smallest"
    if any(len(other) < len(kinds) for other in others):
        alone = kinds.difference(*others)
        rank = "only one" if alone or kinds not in others else "smallest"
        which = f"the {rank} that also changes {join_names(sorted(alone or kinds, reverse=True))}"
    return [*favoured, f"of these, the chosen one is {which}"]


def _is_favoured_by_agreement(standings: Standings, candidate: int) -> bool:
    """Whether, of those that behave alike, the likeliest are several samples with its code."""
    likely = likeliest_alike(standings, candidate)
    fewer = len(likely) < len(behaving_alike(standings, candidate))
    codes = {standings.entries[c].same_as for c in likely}
    return fewer and len(likely) > 1 and codes == {standings.entries[candidate].same_as}


def _describe_passed_over(standings: Standings, verdict: Verdict, names: Sequence[str]) -> str:
    """Why edits were not compared that pass as many scripts as one that was, or more."""
    table, told = standings.table, dict[str, str]()
    least = min(table.votes(c) for c in verdict.finalists)
    shown = {names[c]: c for c in verdict.finalists}
    for c, entry in enumerate(standings.entries):
        if names[c] in shown or table.votes(c) < least:
            continue
        alike = behaving_alike(standings, c)
        like = next((name for name, other in shown.items() if other in alike), "")
        same = next(
            (n for n, o in shown.items() if standings.entries[o].same_as == entry.same_as), ""
        )
        how = (
            f"behaves as {like} does in every script that ran with both"
            if like
            else "has less evidence for it"
        )
        told[names[c]] = f"is the same code as {same}" if same else how
    ours = not any(one.source for one in table.candidates)
    return "".join(f" {'Edit ' * ours}{name} {how}." for name, how in told.items())


def _describe_decision(standings: Standings, verdict: Verdict) -> str:
    table = standings.table
    names = name_edits(table, verdict.order)
    chosen = verdict.order[0]
    among = sorted(dict.fromkeys(names[c] for c in verdict.finalists))
    what = "" if any(one.source for one in table.candidates) else "edits "
    those = f"{what}{join_names(among)}" if len(among) <= 5 else f"{len(among)} edits"
    name = _call(table, chosen, names)
    match verdict.decided_by:
        case "only one":
            return "It was the only edit left."
        case "model" if verdict.rounds:
            decided = [one for one in verdict.further if not one.after_choice]
            how = _describe_further(decided, chosen, names)
            return (
                f"A model compared {those}, and chose {name}{how}."
                f"{_describe_passed_over(standings, verdict, names)}"
                f"{_quote(verdict.reasons, names)}"
            )
        case "model":
            return f"A model read {those}, and chose {name}."
        case "reward model":
            return f"{_METHODS[verdict.method]} A reward model ranked it first among equals."
        case _:
            return _METHODS.get(verdict.method, _METHODS["voting"])


def _quote(reasons: Sequence[Reason], names: Sequence[str]) -> str:
    """The `reasons`, each with the name of the edit that it is against."""
    if not reasons:
        return ""
    against = ["" if one.against is None else f"against {names[one.against]}" for one in reasons]
    if len(reasons) == 1:
        return f" {f'Its reason {against[0]}'.rstrip()}: “{reasons[0].text}”"
    quoted = [f"{which}, “{one.text}”" for which, one in zip(against, reasons, strict=True)]
    return f" Its reasons: {'; '.join(quoted)}"


def _describe_further(further: Sequence[FurtherScript], chosen: int, names: Sequence[str]) -> str:
    """How the scripts ended that decided, as the end of a sentence."""
    if not further:
        return "; no further script told them apart"
    if len(further) == 1:
        return f" after one more script, which {join_names(describe_ends(further[0], names))}"
    ran = [dict(zip(one.candidates, one.runs, strict=True)) for one in further]
    ends = [runs[chosen].passed for runs in ran if chosen in runs]
    passed = str(sum(ends) or "none")
    if ends and all(ends) and len(ends) > 1:
        passed = "both" if passed == "2" else f"all {passed}"
    ran_with = f"{len(ends) or 'none'} ran with it; " if len(ends) < len(further) else ""
    return f" after {len(further)} more scripts, of which {ran_with}it passes {passed}"


def describe_end(run: Execution) -> str:
    """How a script ended, as a verb."""
    return _ENDS.get(run.exit_code, _NO_VERDICT)[0]


def describe_ends(script: FurtherScript, names: Sequence[str] | Mapping[int, str]) -> list[str]:
    """With which edits `script` passes and fails: `A passes`, `B and C fail`.

    `names`: of each candidate of the table.
    """
    groups: dict[tuple[str, str], list[str]] = {verbs: [] for verbs in _ENDS.values()}
    for c, run in zip(script.candidates, script.runs, strict=True):
        groups[_ENDS.get(run.exit_code, _NO_VERDICT)].append(names[c])
    return [
        f"{join_names(sorted(those))} {agree(len(those), *verbs)}"
        for verbs, those in groups.items()
        if those
    ]


def vote_sentences(table: VoteTable, standings: Sequence[Standing] = ()) -> tuple[str, ...]:
    """How the scripts went on the unedited code, and the best edit with them."""
    tests = pluralize(len(table.tests), "script")
    reporting = sum(run.exit_code == NOT_FIXED for run in table.base)
    report = agree(reporting, "reports", "report")
    best = table.order()[0]
    codes = {one.same_as for one in standings} or {c.patch.diff for c in table.candidates}
    tried = count_edits(len(table.candidates), len(codes))
    facts = [
        f"{reporting} of {tests} {report} the issue on the unmodified code.",
        f"{tried}; the best passes {table.votes(best)} of {tests}.",
    ]
    if table.flaky:
        flaky, do = len(table.flaky), agree(len(table.flaky), "does", "do")
        facts.append(
            f"{pluralize(flaky, 'script')} {do} not always end the same way and {do} not count."
        )
    if table.base:
        facts.append(f"The first script on the unmodified code: {_outcome_sentence(table.base[0])}")
    return tuple(facts)


def _outcome_sentence(run: Execution) -> str:
    how = f"exit code {run.exit_code}" if run.exit_code is not None else run.ending.value
    return f"{how}.\n{shorten(strip_ansi(run.output).strip(), _OUTPUT)}".strip()


def count_edits(samples: int, edits: int) -> str:
    """How many samples wrote how many edits that differ in more than their wording."""
    different = "different " if 1 < edits < samples else ""
    return f"{pluralize(samples, 'sample')}, {pluralize(edits, f'{different}edit')}"
