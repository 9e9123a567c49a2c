"""Finalists meet in pairs, and what a run shows counts for more than the order they are read in."""

from collections.abc import Mapping, Sequence

import pytest

from pipeline.data.suite_reports import Reason
from pipeline.data.types import VoteTable
from pipeline.selection.discriminate import DiscriminatingState, Round
from pipeline.selection.finalists import DecidingScript, Finalists
from pipeline.selection.knockout import Settled, settle
from pipeline.state import Phase
from sandbox.program import Ending, Execution

Talk = tuple[str | None, Sequence[str]]
"""The letter chosen (None: none was named), and by script the letters that pass it."""


def run_with(code: int) -> Execution:
    return Execution(ending=Ending.EXIT, exit_code=code, output="", seconds=0.1)


class Referee:
    def __init__(
        self,
        talks: Mapping[str, Talk],
        failing: Sequence[str] = (),
        *,
        base: int = 2,
        asked: bool = True,
        alike: bool = False,
    ) -> None:
        self._talks = talks
        self._base = base
        """How each script ends on the unedited code."""
        self._asked = asked
        """Whether the model says that the issue asks for what its scripts check."""
        self._alike = alike
        """Whether the model says that both do the same."""
        self._failing = failing
        """Finalists with which a script that is run on them alone reports the issue."""
        self.asked: list[str] = []
        self.ran: list[tuple[str, int]] = []
        self.missing: list[Sequence[str]] = []
        self.decided: list[Sequence[DecidingScript]] = []

    async def ask(self, pair: Finalists) -> DiscriminatingState:
        order = "".join(pair.letters)
        self.asked.append(order)
        self.missing.append(pair.missing)
        self.decided.append(pair.decided)
        chosen, scripts = self._talks[order]
        rounds = [
            Round(
                script=f"{order} {number}",
                base=run_with(self._base),
                runs=tuple(run_with(0 if letter in passing else 2) for letter in pair.letters),
            )
            for number, passing in enumerate(scripts)
        ]
        phase = Phase.APPROVED if chosen else Phase.OUT_OF_ATTEMPTS
        at = pair.letters.index(chosen) if chosen else 0
        why = f"{chosen} of {order}." if chosen else ""
        return DiscriminatingState(
            pending="",
            phase=phase,
            rounds=rounds,
            chosen=at,
            why=why,
            asked=self._asked,
            alike=self._alike,
        )

    async def run(self, script: str, candidate: int) -> Execution:
        self.ran.append((script, candidate))
        return run_with(2 if "ABC"[candidate] in self._failing else 0)

    async def settle(self, letters: str) -> Settled:
        passes, fails = run_with(0), run_with(2)
        runs = ((passes, passes), (passes, passes), (passes, fails))
        table = VoteTable(candidates=(), tests=(), base=(), runs=runs)
        indices = ["ABC".index(letter) for letter in letters]
        finalists = Finalists(table=table, indices=indices, letters=list(letters))
        return await settle(finalists, self.ask, self.run)


async def test_a_choice_that_a_run_carries_is_not_asked_for_again() -> None:
    referee = Referee({"AB": ("B", ["B"])})
    settled = await referee.settle("AB")
    assert (settled.chosen, settled.rounds, settled.asked) == (1, 1, True)
    assert settled.reasons == (Reason(text="B of AB.", against=0),)
    assert referee.asked == ["AB"]


TWICE: list[tuple[Talk, Talk, int]] = [
    (("A", []), ("A", []), 0),
    (("B", []), ("B", []), 1),
    # Both times the one read first: it is the order that chose.
    (("A", []), ("B", []), 0),
    (("A", []), ("B", ["B"]), 1),
    (("B", ["A"]), ("A", []), 0),
    ((None, ["B"]), ("B", []), 1),
    ((None, ["B"]), (None, []), 1),
    ((None, []), (None, []), 0),
]


@pytest.mark.parametrize(("first", "again", "chosen"), TWICE)
async def test_the_other_order_is_asked_where_no_run_carries_the_choice(
    first: Talk, again: Talk, chosen: int
) -> None:
    referee = Referee({"AB": first, "BA": again})
    settled = await referee.settle("AB")
    assert referee.asked == ["AB", "BA"]
    assert settled.chosen == chosen
    assert settled.asked == (None not in (first[0], again[0]))


@pytest.mark.parametrize(
    ("scripts", "asked"),
    [(["AB"], ["AB"]), ([""], ["AB"]), (["AB", "B"], ["AB", "BA"]), ([], ["AB", "BA"])],
)
async def test_a_pair_that_a_script_shows_to_be_alike_is_asked_about_once(
    scripts: list[str], asked: list[str]
) -> None:
    referee = Referee({"AB": ("A", scripts), "BA": ("A", [])}, alike=True)
    assert (await referee.settle("AB")).chosen == 0
    assert referee.asked == asked


@pytest.mark.parametrize(("base", "chosen"), [(0, 1), (2, 0)])
async def test_what_breaks_in_the_only_run_is_not_chosen_because_it_is_said_twice(
    base: int, chosen: int
) -> None:
    referee = Referee({"AB": ("A", ["B"]), "BA": ("A", [])}, base=base)
    settled = await referee.settle("AB")
    assert settled.chosen == chosen
    # The second opinion sees the script of the first.
    assert referee.decided == [(), (DecidingScript("AB 0", "B passes; A fails", opinion=True),)]


async def test_the_winner_meets_the_next() -> None:
    referee = Referee({"AB": ("B", ["B"]), "BC": ("C", ["C"])})
    settled = await referee.settle("ABC")
    assert (settled.chosen, settled.reasons) == (2, (Reason(text="C of BC.", against=1),))
    assert referee.asked == ["AB", "BC"]
    assert referee.ran == [("AB 0", 2)]
    assert referee.decided == [(), (DecidingScript("AB 0", "B and C pass; A fails"),)]


async def test_what_was_said_for_an_edit_that_lost_is_no_reason() -> None:
    referee = Referee({"AB": ("A", []), "BA": ("B", ["B"])})
    settled = await referee.settle("AB")
    assert (settled.chosen, settled.reasons) == (1, (Reason(text="B of BA.", against=0),))
    both = Referee({"AB": ("A", ["A"]), "AC": ("A", ["A"])})
    reasons = (await both.settle("ABC")).reasons
    assert [one.text for one in reasons] == ["A of AB.", "A of AC."]
    assert [one.against for one in reasons] == [1, 2]


async def test_a_finalist_that_meets_the_winner_is_told_of_and_not_named() -> None:
    referee = Referee({"AB": ("B", ["B"]), "BC": ("C", ["C"])})
    await referee.settle("ABC")
    waiting = (
        "1 further edit meets the winner; the scripts that decide between these two are run on it, "
        "too."
    )
    lost = "A lost to B: it fails a script that the latter passes."
    assert referee.missing == [[waiting], [lost]]


async def test_one_that_fails_the_script_of_another_pair_has_lost() -> None:
    referee = Referee({"AB": ("A", ["A"])}, failing="C")
    settled = await referee.settle("ABC")
    assert (settled.chosen, referee.asked) == (0, ["AB"])
    (script,) = settled.further
    ends = [run.exit_code for run in script.runs]
    assert (script.text, script.candidates, ends) == ("AB 0", (0, 1, 2), [0, 2, 2])


@pytest.mark.parametrize(("base", "asked"), [(0, True), (1, True), (2, False)])
async def test_a_script_that_does_not_test_the_issue_puts_no_finalist_out(
    base: int, asked: bool
) -> None:
    talks: dict[str, Talk] = {"AB": ("A", ["A"]), "AC": ("C", ["C"])}
    referee = Referee(talks, failing="C", base=base, asked=asked)
    settled = await referee.settle("ABC")
    assert (settled.chosen, referee.asked) == (2, ["AB", "AC"])


async def test_scripts_that_tell_nothing_apart_are_not_kept() -> None:
    referee = Referee({"AB": ("A", ["AB"]), "BA": ("A", ["B", ""])})
    settled = await referee.settle("AB")
    assert (settled.rounds, [script.text for script in settled.further]) == (3, ["BA 0"])
    assert settled.further[0].candidates == (1, 0)
