"""What a source can add at will never speaks for its edit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest

from pipeline.selection.scoring.canonical import CanonicalEdit, normalise
from pipeline.selection.scoring.confidence import (
    Weights,
    choose,
    load_shipped_model,
    log_odds,
    ranking,
    weights_for,
)
from pipeline.selection.scoring.features import compute_text_evidence
from tests.support.data.diffs import diff_of

ISSUE = "total() in till.py subtracts prices instead of adding them: TypeError is raised for None"
BASE = """
import math

def total(prices):
    result = 0
    for price in prices:
        result -= price
    return result

def mean(prices):
    return total(prices) / len(prices)
"""


def edit(line: str, after: str = "") -> str:
    return diff_of(BASE, BASE.replace("result -= price", line) + after, "shop/till.py")


PLUS = edit("result += price")
WITH_NEW_FILE = PLUS + diff_of("", "def add(a, b):\n    return a + b\n", "shop/adding.py")
ONLY_REMOVES = diff_of(BASE, BASE.replace("    return result\n", ""), "shop/till.py")
CASES = {
    "all equal": [PLUS] * 4,
    "all but one equal": [PLUS, PLUS, PLUS, edit("return sum(prices)")],
    "two small, two large": [PLUS, PLUS, *[edit("try:\n            f()\n        except:\n 1")] * 2],
    "all different": [PLUS, edit("result += abs(price)"), edit("raise Bad"), edit("pass")],
    "one other": [PLUS, edit("result = add(result, price)", "def add(a, b):\n    return a + b\n")],
    "the smallest of large ones": [PLUS, *(edit("f(\n" + "a,\n" * n + ")") for n in (20, 40, 80))],
    "a new file": [WITH_NEW_FILE, PLUS, edit("result += abs(price)")],
    "only removes": [ONLY_REMOVES, PLUS, PLUS],
    "only adds": [edit("result -= -price", "X = 1\n"), diff_of(BASE, BASE + "Y = 1\n")],
    "alone": [PLUS],
}


def useless(lines: int) -> str:
    text = "".join(f"UNUSED_{n} = {n} * {n} // 7\n" for n in range(lines))
    return diff_of("", text, "shop/more.py")


NAMED = diff_of(
    "", "import till\ntotal = prices = None\nTypeError\ntill = adding\n", "shop/till.pyx"
)
PADDING = {
    **{f"{lines} lines": useless(lines) for lines in (2, 20, 500, 5_000)},
    "functions": diff_of("", "try:\n    import math\nexcept OSError:\n    raise\n", "shop/a.py"),
    "the issue's words": NAMED,
    "many files": "".join(diff_of("", f"X = {n}\n", f"shop/part{n}.py") for n in range(50)),
}


@cache
def form(diff: str) -> CanonicalEdit:
    return normalise(diff)


def compute_gains(
    case: Sequence[str], padded: str, fits: Sequence[Weights]
) -> list[tuple[float, float]]:
    """By how much padding raises the first edit's log-odds, and its lead over any of the others.

    One pair for each of `fits`. The evidence is the same for all of them.
    """
    before = compute_text_evidence([form(diff) for diff in case], ISSUE)
    after = compute_text_evidence([form(padded), *(form(diff) for diff in case[1:])], ISSUE)
    gains: list[tuple[float, float]] = []
    for weights in fits:
        old, new = ranking(before, weights), ranking(after, weights)
        others = range(1, len(case))
        lead = max(((new[0] - new[o]) - (old[0] - old[o]) for o in others), default=0.0)
        gains.append((log_odds(after, weights, 0) - log_odds(before, weights, 0), lead))
    return gains


def scripts(count: int) -> str:
    return "".join(diff_of("", "print(1)\n", f"debug_{n}.py") for n in range(count))


def list_fits() -> list[Weights]:
    return [
        w for fit in load_shipped_model().fits.values() for w in (fit.whole, *fit.without.values())
    ]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("padding", PADDING.values(), ids=PADDING)
def test_an_edit_with_something_useless_is_never_better_than_without(
    case: Sequence[str], padding: str
) -> None:
    for odds, lead in compute_gains(case, case[0] + padding, list_fits()):
        assert odds <= 1e-9
        assert lead <= 1e-9


def test_a_needless_file_of_50_000_lines_makes_nothing_better() -> None:
    padding = useless(50_000)
    for name in ("all but one equal", "the smallest of large ones"):
        ((odds, lead),) = compute_gains(CASES[name], CASES[name][0] + padding, [weights_for(None)])
        assert odds < 0
        assert lead < 0


def test_two_equal_small_edits_come_before_one_with_a_needless_file() -> None:
    big = form(PLUS + useless(5_000))
    for forms in ([big, form(PLUS), form(PLUS)], [form(PLUS), big, form(PLUS)]):
        evidence = compute_text_evidence(forms, ISSUE)
        chosen = choose(evidence, weights_for(None))
        assert all(forms[c] != big for c in chosen)


def test_many_left_scripts_speak_for_an_edit_no_more_than_one() -> None:
    for case in CASES.values():
        one = [case[0] + scripts(1), *case[1:]]
        for odds, lead in compute_gains(one, case[0] + scripts(30), list_fits()):
            assert odds <= 1e-9
            assert lead <= 1e-9


def test_no_shipped_weight_rewards_what_can_be_added_at_will() -> None:
    from tests.benchmarks.fitting.fit_confidence import (
        weight_sign,  # loads SciPy: not while collecting
    )

    for weights in list_fits():
        for name, weight in (*weights.rank.items(), *weights.probability.items()):
            assert weight * weight_sign(name) >= 0, name
