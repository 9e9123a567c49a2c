"""A comment to a command: `/capuchin VERB ...` at the beginning of a line.

What stands in quotes, in code or in an HTML comment is no command. Nor is what calls us in
mid-line, but it asks for an answer: its author may have meant one.
"""

import difflib
import re
from collections.abc import Collection, Iterator
from typing import Final

from bot.data.request import Command
from bot.settings import DEFAULT_NAME
from sandbox.frozen import replace

VERBS: Final = (
    "fix", "retry", "plan", "judge", "use", "more", "budget", "stop", "status", "explain", "stats",
    "config", "help",
)  # fmt: skip
OTHERS_VERBS: Final = {"cancel": "stop", "abort": "stop", "approve": "fix", "dry-run": "plan"}
"""Verbs of other bots that mean one of ours."""

_FENCE: Final = re.compile(r" {0,3}(?:(`{3,})[^`]*|(~{3,}+).*)$")
_CODE_OR_QUOTE: Final = re.compile(r" {0,3}>| {4}| {0,3}\t")
_HIDING: Final = re.compile(r"<(!--|(?:pre|code|blockquote)\b)", re.I)


def parse_command(text: str, *names: str) -> Command | None:
    """The command in `text`, or None. `names` are ours; case does not count.

    Of several, `stop` goes first, and then what comes first. `/capuchin` is always heard: it
    notifies nobody. `@name[bot]`, as GitHub writes an App's login, is the same as `@name`.
    """
    called, always = "|".join(map(re.escape, names)), re.escape(DEFAULT_NAME)
    ours = rf"(?:(?P<slash>/)(?:{called}|{always})|@(?:{called})(?:\[bot\])?)[:,)]?"
    form = re.compile(rf"(?<![^\s(*_:\"']){ours}(?:[ \t]+(?P<rest>.*)|(?=[.!?)]*$))", re.I)
    found: list[Command] = []
    for line in _list_spoken_lines(text):
        parts = [line]
        if form.match(line) is None:
            code = re.split("`+", line)  # an odd part is code, unless nothing closes it
            parts = code[::2] if len(code) % 2 else [*code[::2], code[-1]]
        found += map(_read, filter(None, map(form.search, parts)))
    if not found:
        return None
    best = min(found, key=_rank)
    others = {one.verb for one in found if one.begins_line and one.verb in VERBS} - {best.verb}
    return replace(best, others=tuple(sorted(others)))


def _list_spoken_lines(text: str) -> Iterator[str]:
    """The lines that are neither quoted nor code nor hidden, without their margins and emphasis."""
    fence = until = ""
    for line in re.split(r"\r\n|\r|\n", text):
        if fence:
            rest = line.strip()
            fence = "" if rest.startswith(fence) and not rest.strip(fence[0]) else fence
        elif until:
            until = "" if until in line.lower() else until
        elif opened := _FENCE.match(line):
            fence = opened[1] or opened[2]
        elif _CODE_OR_QUOTE.match(line) is None:
            if hidden := _HIDING.search(line):
                end = "-->" if hidden[1] == "!--" else f"</{hidden[1].lower()}"
                until = "" if end in line[hidden.end() :].lower() else end
                line = line[: hidden.start()]
            yield line.strip(" \t*_")


def _read(hit: re.Match[str]) -> Command:
    words = (hit["rest"] or "").split()
    verb = words[0].rstrip(".,!:;?").lower()[:40] if words else ""
    verb = OTHERS_VERBS.get(verb, verb)
    before = hit.string[: hit.start()].rstrip()
    # "Thanks! @capuchin stop" ends its line and says nothing else.
    alone = before.endswith((".", "!", "?")) and len(words) == 1 and verb in VERBS
    return Command(
        verb=verb,
        words=tuple(words[1:]),
        by_slash=hit["slash"] is not None,
        begins_line=not before or alone,
    )


def _rank(command: Command) -> tuple[bool, bool, bool]:
    begins, is_ours = command.begins_line, command.verb in VERBS
    return not (begins and command.verb == "stop"), not begins, not is_ours


def is_talk(command: Command) -> bool:
    """Whether it calls us without telling us what to do, as in `@capuchin thanks!`."""
    if command.by_slash or command.verb in VERBS:
        return False
    near = command.begins_line and nearest_verb(command.verb, VERBS) is not None
    return not (command.verb and near)


def nearest_verb(verb: str, verbs: Collection[str]) -> str | None:
    """The verb that was probably meant, or None when none is near.

    Letters in another order are nearest: `stauts` is `status`, though `stats` is as like it.
    """
    turned = [one for one in verbs if sorted(one) == sorted(verb)]
    if turned:
        return turned[0]
    close = difflib.get_close_matches(verb, sorted(verbs), n=1, cutoff=0.6)
    return close[0] if close else None
