"""What people read of a test runner's output: the first error, counts, the first failure, its end.

What each runner prints is data of its language; the output is untrusted.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from pydantic import Field

from prompts.text import strip_ansi
from sandbox.frozen import Frozen

MOST_LINES: Final = 80
"""A longer failure is cut."""
_LONGEST_LINE: Final = 1000
_MOST_RESULTS: Final = 20
"""Lines of passed and skipped tests that are kept; where there are more, none is."""


_PASSES: Final = re.compile(r"(\d{1,9}) (?:x?passed|passing)\b|\b(?:Passed: *|pass )(\d{1,9})")
_ALL: Final = re.compile(
    r"(\d{1,9}) (?:tests?|examples?|runs|total)\b(?! failed)|\bTests(?: run)?: (\d{1,9})"
    r"|\((\d{1,9})\)|\bout of (\d{1,9})"
)
_NO_RESULTS: Final = re.compile(
    r"(\d{1,9}) (?:skipped|xfailed|pending|skips|todo|ignored|in packages without tests)\b"
    r"|\b(?:skipped=|expected failures=|Skipped: *)(\d{1,9})"
)


def shows_none_passed(counts: str) -> bool:
    """Whether no test passed by the `counts` of a runner that ended well: it ran none, or skipped
    them, or they failed as expected. False where they do not say."""

    def add_up(pattern: re.Pattern[str]) -> int | None:
        found = [int(match[match.lastindex or 0]) for match in pattern.finditer(counts)]
        return sum(found) if found else None

    passes, total, rest = map(add_up, (_PASSES, _ALL, _NO_RESULTS))
    if passes is not None:
        return not passes
    return bool(rest) if total is None else total <= (rest or 0)


class Printed(Frozen):
    """What the test runners of a language print, as patterns; `^` begins a line."""

    errors: tuple[str, ...] = ()
    """The first error, the likeliest first; its groups are what people read."""
    counts: tuple[str, ...] = ()
    """The counts of results; likewise."""
    failed: str = "(?!)"
    """A number of failures in those counts."""
    counted: dict[str, str] = Field(default_factory=dict[str, str])
    """Where nothing counts: by word for a result, the line of each."""
    heading: str = "(?!)"
    """The first line of a failure, with the test's name."""
    summary: tuple[str, ...] = ()
    """The beginning of what a runner says at its end, the best first."""
    progress: str = "(?!)"
    """A line before the first failure that says nothing of it."""
    results: str = "(?!)"
    """A line that says that a test passed or was skipped."""

    def find_error(self, text: str) -> str:
        return next(_say(self.errors, text), "")

    def find_counts(self, text: str) -> str:
        found = {word: len(re.findall(line, text, re.M)) for word, line in self.counted.items()}
        counted = ", ".join(f"{count} {word}" for word, count in found.items() if count)
        return next(_say(self.counts, text, last=True), counted)

    def shorten(self, output: str) -> str:
        """The first failure, itself cut where it is long, and the summary."""
        text = strip_ansi(output).replace("\r\n", "\n")
        failures = self._find_failures(text)
        if not failures:
            return output
        first = failures[0].start()
        if len(failures) == 1:
            before = _leave_out_middle(text[:first].split("\n"))
            return "\n".join(before) + self._cut(text[first:])
        second = failures[1].start()
        left = max(self._count_failures(text) or len(failures), 2) - 1
        note = f"[... {left} more {'failure' if left == 1 else 'failures'} left out ...]"
        # A rule above the second failure belongs to it.
        failure = re.sub(r"(?m)^={20,}\n+\Z", "", text[first:second]).rstrip("\n")
        return "\n".join(filter(None, (self._cut(failure), note, self._end_of(text, second))))

    def find_end(self, output: str) -> str:
        """The summary of a run; empty if there is none."""
        return self._end_of(strip_ansi(output).replace("\r\n", "\n"))

    def _find_failures(self, text: str) -> list[re.Match[str]]:
        """The headings of the failures; if a test printed some, too: those that the summary
        names."""
        found = list(re.finditer(self.heading, text, re.M))
        total = self._count_failures(text)
        if total is None or len(found) <= total:
            return found
        summary = [_words(line.partition(" - ")[0]) for line in self._end_of(text).split("\n")]
        named = [
            one for one in found if any(line.endswith(_words(_group(one))) for line in summary)
        ]
        return named or found[:1]

    def _count_failures(self, text: str) -> int | None:
        """How many tests failed, by the runner's last count; None if it does not say."""
        counts = [*re.finditer("|".join(self.counts) or "(?!)", text, re.M)]
        if not counts:
            return None
        failed = re.finditer(self.failed, counts[-1][0])
        return sum(int(_group(one)) for one in failed)

    def _end_of(self, text: str, start: int = 0) -> str:
        """The runner's summary at the end of `text`, searched from `start` on; else empty."""
        for pattern in (*self.summary, *self.counts):
            if found := [*re.compile(pattern, re.M).finditer(text, start)]:
                return text[found[-1].start() :].rstrip()
        return ""

    def _cut(self, failure: str) -> str:
        """A long failure without what lies between its beginning, what led to its error, and to the
        next ones of a chain."""
        errors = ([*re.finditer(pattern, failure, re.M)] for pattern in self.errors)
        found = next(filter(None, errors), list[re.Match[str]]())
        starts = [one.start() for one in found]
        *before, last = (failure[a:b] for a, b in pairwise([0, *starts, len(failure)]))
        cut = ("\n".join(_leave_out_middle(part.split("\n"))) for part in before)
        return "".join([*cut, last])


def drop_progress(prints: Sequence[Printed], output: str) -> str:
    """The output without preparations, progress, and many lines of passed and skipped tests."""
    lines = output.split("\n")
    texts = [strip_ansi(line).strip()[:_LONGEST_LINE] for line in lines]
    results = re.compile("|".join(f"(?:{one.results})" for one in prints))
    dropped = {at for at, text in enumerate(texts) if results.fullmatch(text)}
    if len(dropped) <= _MOST_RESULTS:
        dropped.clear()
    for one in prints:
        if one.progress == Printed().progress:
            continue
        # Below the first failure, a test may have printed what looks like progress: evidence.
        end = next((at for at, text in enumerate(texts) if re.match(one.heading, text)), len(lines))
        dropped |= {at for at in range(end) if re.fullmatch(one.progress, texts[at])}
    return "\n".join(line for at, line in enumerate(lines) if at not in dropped)


def _leave_out_middle(lines: list[str]) -> list[str]:
    """What leads to a failure or its error, if it is long: the beginning and the end."""
    begin, end = MOST_LINES // 4, len(lines) - MOST_LINES // 2
    left_out = [f"[... {end - begin} lines left out ...]"]
    return [*lines[:begin], *left_out, *lines[end:]] if end > begin else lines


def _say(patterns: tuple[str, ...], text: str, *, last: bool = False) -> Iterator[str]:
    for pattern in patterns:
        found = [*re.finditer(pattern, text, re.M)] if last else [re.search(pattern, text, re.M)]
        if found and (match := found[-1]):
            yield ", ".join(part.strip(" ,") for part in match.groups() if part)


def _group(match: re.Match[str]) -> str:
    return match[match.lastindex or 0]


def _words(text: str) -> str:
    return " " + " ".join(re.findall(r"\w+", text))
