"""Makes samples differ: approach, generator, what they are shown; what all must do.

Plain samples get neither. They are independent draws, as the paper's are and as the estimate of a
chosen edit's probability assumes.
"""

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from pydantic import Field

from pipeline.codebase.unified_diff import parse_diff
from pipeline.data.code_places import Context, Habits, Located
from pipeline.data.options import ONLY_FIXED, Generator, Options
from pipeline.data.suite_reports import SuiteReport
from pipeline.data.types import NO_CHECKLIST, Checklist, ChecklistPoint, Issue, TestScript
from pipeline.languages.conventions import is_test
from pipeline.languages.language import PromptLanguage
from pipeline.models.base import ContextTooLong, Message, Model, ModelRefused, ModelRequest
from pipeline.replies import Malformed, some_tags
from pipeline.run_errors import BudgetSpent
from pipeline.store import Store
from prompts.templates import render
from prompts.text import pluralize, shorten
from sandbox.frozen import Frozen
from sandbox.frozen import replace as replace_fields
from sandbox.program import Execution


def assign_generators(generators: Sequence[Generator], samples: int) -> list[Generator]:
    """The generator of each sample, from 0: in every prefix as near to the shares as possible.

    So the first wave is stratified. Without generators all samples are `fixed`.
    """
    mixture = tuple(generators) or ONLY_FIXED
    total = sum(generator.share for generator in mixture)
    drawn = [0] * len(mixture)
    order: list[Generator] = []
    for count in range(1, samples + 1):
        missing = [g.share / total * count - drawn[i] for i, g in enumerate(mixture)]
        # Rounded, so that the earlier wins between equal ones.
        chosen = max(range(len(mixture)), key=lambda i: (round(missing[i], 9), -i))
        drawn[chosen] += 1
        order.append(mixture[chosen])
    return order


APPROACHES_KEY = "approaches"
_LONGEST = 800
"""Characters of one approach, or point."""
_MOST_POINTS = 12
_POINT = re.compile(r"[-*\s]*(?P<weight>[1-3])\s*\|\s*(?P<path>[^|\s]{1,300})\s*\|\s*(?P<text>.+)")
_MOST_LINES = 100
_PLAIN = (0, 4)
"""Samples without an approach and without a sight of other edits: in the first and the second wave.
"""


class Approaches(Frozen):
    """What was said before any edit was written. Untrusted."""

    lines: tuple[str, ...] = ()
    """Approaches, one for each sample that starts from one; possibly fewer."""
    checklist: Checklist = NO_CHECKLIST

    def assign(self, options: Options) -> dict[int, str]:
        """The approach of each sample that starts from one."""
        return dict(zip(_find_takers(options), self.lines, strict=False))


class TriedEdit(Frozen):
    sample: int
    diff: str
    how: str
    """The result of its edit, as a sentence."""
    summary: str = ""
    """See `Candidate`."""


class Direction(Frozen):
    """The direction of one editing machine, after the opening that all share."""

    approach: str = ""
    others: tuple[TriedEdit, ...] = Field(default=())
    """Empty for an independent sample."""
    located: Located | None = None
    """Where a search thinks the cause is; None without a search."""
    agree: bool = False
    """Whether the others all found a fix: then this sample must check them, not differ."""
    checklist: tuple[ChecklistPoint, ...] = ()
    """What a complete fix must do, for a sample that checks others."""

    def find_shown(self, number: str) -> TriedEdit | None:
        """The edit that was shown under this number, from 1."""
        text = number.strip()
        at = int(text) if text.isascii() and text.isdecimal() and len(text) < 3 else 0
        return self.others[at - 1] if 0 < at <= len(self.others) else None

    def find_repetition(self, diff: str) -> str:
        """A sentence if `diff` repeats one of the others' edits; else empty."""
        if self.agree or all(other.diff != diff for other in self.others):
            return ""
        return "This is one of the edits you were shown. Send one that differs in what it does."


async def draw_approaches(
    model: Model, opening: ModelRequest, language: PromptLanguage, options: Options, store: Store
) -> Approaches:
    """Draw different approaches and a checklist for every edit in one call, and save them.

    `opening`: what every editing machine is told first, so that the provider caches it once; the
    files that they see are in view. Empty if the answer is malformed, refused or too expensive.
    """
    saved = await store.load(APPROACHES_KEY, Approaches)
    if saved is not None:
        return saved
    count = len(_find_takers(options))
    if not count:
        return Approaches()
    text = render("approaches/write", count=count, language=language)
    question = Message(role="user", text=text)
    request = replace(opening, messages=(*opening.messages, question), call="approaches")
    try:
        reply = await model.complete(request)
    except BudgetSpent:
        return Approaches()
    except (ModelRefused, ContextTooLong):
        saved = Approaches()
    else:
        saved = parse_approaches(reply.text, count)
    await store.save(APPROACHES_KEY, saved)
    return saved


def _find_takers(options: Options) -> list[int]:
    """The samples that are neither plain nor informed."""
    return [
        sample
        for sample in range(options.samples)
        if sample not in _PLAIN and not is_informed(sample, options.informed)
    ]


def parse_approaches(reply: str, count: int) -> Approaches:
    found = some_tags(reply, "approaches", "complete", "script")
    if isinstance(found, Malformed):
        return Approaches()
    bare = (
        line.strip().lstrip("0123456789.-*•) \t")
        for line in found.get("approaches", "").splitlines()[:_MOST_LINES]
    )
    short = (textwrap.shorten(line, _LONGEST, placeholder=" …") for line in bare if line)
    script = found.get("script", "").strip()
    points = map(
        _POINT.fullmatch, map(str.strip, found.get("complete", "").splitlines()[:_MOST_LINES])
    )
    return Approaches(
        lines=tuple(dict.fromkeys(short))[:count],
        checklist=Checklist(
            points=tuple(
                ChecklistPoint(
                    weight=int(point["weight"]),
                    path="" if (path := point["path"].strip("`")) == "-" else path,
                    text=textwrap.shorten(point["text"], _LONGEST, placeholder=" …"),
                )
                for point in points
                if point
            )[:_MOST_POINTS],
            script=f"{script}\n" if script else "",
        ),
    )


def is_informed(sample: int, share: float) -> bool:
    """Whether a sample sees the others' edits: `share` of them, evenly, never a plain one."""
    # Rounded down: a share of 0.3 makes one of four and three of ten.
    due = int(share * (sample + 1) + 1e-9) > int(share * sample + 1e-9)
    return due and sample not in _PLAIN


class FinishedSample(NamedTuple):
    sample: int
    diff: str
    run: Execution | None
    broken: int
    """How many tests of the repository the edit broke."""
    summary: str = ""
    base: Execution | None = None
    """The same script without its edit."""


def to_tried_edits(finished: Sequence[FinishedSample]) -> tuple[TriedEdit, ...]:
    """The edits of finished samples for informed ones; of those with the same code, the first."""
    alike: dict[str, list[TriedEdit]] = {}
    for sample, diff, run, broken, summary, base in finished:
        how = _describe_run(run, base)
        if broken:
            how += f" Tests of the repository that it breaks: {broken}."
        edit = TriedEdit(sample=sample, diff=diff, how=how, summary=summary)
        alike.setdefault(_find_code(diff), []).append(edit)
    found: list[TriedEdit] = []
    for first, *more in alike.values():
        others = len({edit.diff for edit in more} - {first.diff})
        note = f" {pluralize(others, 'other sample')} wrote the same code with other tests."
        found.append(replace_fields(first, how=first.how + note) if others else first)
    return tuple(found)[:6]


def _find_code(diff: str) -> str:
    """The part of `diff` outside test files; `diff` itself if there is none."""
    changed = [
        (file.old, file.new, [line for hunk in file.hunks for line in hunk.lines if line[0] != " "])
        for file in parse_diff(diff)
        if not is_test(file.new or file.old or "")
    ]
    return repr(changed) if changed else diff


def samples_agree(finished: Sequence[FinishedSample]) -> bool:
    """Whether at least two samples finished, and every edit fixes its script and breaks nothing."""
    fine = [bool(one.run and one.run.passed and not one.broken) for one in finished]
    return len(fine) > 1 and all(fine)


def wrote_the_same(finished: Sequence[FinishedSample]) -> bool:
    """Whether the finished samples agree on the very code, whatever tests they brought."""
    return samples_agree(finished) and len({_find_code(one.diff) for one in finished}) == 1


def to_template_values(others: Sequence[TriedEdit]) -> list[dict[str, str]]:
    return [
        {"diff": shorten(other.diff, 8000), "how": other.how, "summary": other.summary}
        for other in others
    ]


def _describe_run(run: Execution | None, base: Execution | None) -> str:
    if run is None:
        return "It was not run."
    if run.exit_code is None:
        return "With it, the script that its author had did not end by itself."
    meaning = {0: "passes", 2: "fails"}
    outcome = meaning.get(run.exit_code, "ends without a verdict")
    same = ", as it does without the edit" if base and base.exit_code == run.exit_code else ""
    return f"With it, the script that its author had {outcome} (exit code {run.exit_code}){same}."


_INDEPENDENT = Direction()
_NO_HABITS = Habits()


class OwnTests(Protocol):
    """Runs some of the repository's own tests without and with a diff."""

    async def compare(self, diff: str) -> SuiteReport | None: ...


@dataclass(frozen=True)
class EditTask:
    """One sample's task: the same for a machine with a fixed context and for one that explores."""

    issue: Issue
    context: Context
    sample: int
    seed: tuple[TestScript, Execution] | None = None
    """The sample's test with its run on the unedited code; only an exploring machine does without.
    """
    own_tests: OwnTests | None = None
    direction: Direction = _INDEPENDENT
    habits: Habits = _NO_HABITS
    unseen: int = 0
    """See `Evidence`: a reply may then say that nothing is left to fix."""

    async def compare(self, diff: str) -> SuiteReport | None:
        """Compare the repository's own tests without and with `diff`, if there are any to run."""
        return await self.own_tests.compare(diff) if self.own_tests else None

    @property
    def approach(self) -> str:
        """The approach that counts as this sample's; empty where others' edits were shown."""
        return "" if self.direction.others else self.direction.approach

    @property
    def informed_by(self) -> tuple[int, ...]:
        """The samples whose edits were shown."""
        return tuple(other.sample for other in self.direction.others)

    def to_template_values(self) -> dict[str, Any]:
        direction = self.direction
        return {
            "approach": direction.approach,
            "located": direction.located,
            "others": to_template_values(direction.others),
            "agree": direction.agree,
            "checklist": direction.checklist,
            "unseen": self.unseen,
        }
