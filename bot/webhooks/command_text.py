"""A comment to a command: `/capuchin VERB ...`.

Only the beginning counts, so that what stands in quotes, in code or in the middle of a sentence is
never a command: a quote begins with `>`, a block of code with a fence or four spaces.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection

from bot.data.request import Command
from bot.settings import DEFAULT_NAME


def parse_command(text: str, *names: str) -> Command | None:
    """The command that `text` begins with, or None. `names` are ours; case does not count.

    `/capuchin` is always heard: it notifies nobody. `@name[bot]`, as GitHub writes an App's login,
    is the same as `@name`.
    """
    called, always = "|".join(map(re.escape, names)), re.escape(DEFAULT_NAME)
    ours = rf"(?:(?P<slash>/)(?:{called}|{always})|@(?:{called})(?:\[bot\])?)[:,]?"
    rest = r"(?:[ \t]+(?P<rest>[^\r\n]*))?(?=[\r\n]|\Z)"
    found = re.match(rf"\s*?^ {{0,3}}{ours}{rest}", text, re.I | re.M)
    if found is None:
        return None
    words = (found["rest"] or "").split()
    verb = words[0].rstrip(".,!:;?").lower()[:40] if words else ""
    # Verbs of other bots that mean one of ours.
    verb = {"cancel": "stop", "abort": "stop", "approve": "fix", "dry-run": "plan"}.get(verb, verb)
    return Command(verb=verb, words=tuple(words[1:]), by_slash=found["slash"] is not None)


def nearest_verb(verb: str, verbs: Collection[str]) -> str | None:
    """The verb that was probably meant, or None when none is near.

    Letters in another order are nearest: `stauts` is `status`, though `stats` is as like it.
    """
    turned = [one for one in verbs if sorted(one) == sorted(verb)]
    if turned:
        return turned[0]
    close = difflib.get_close_matches(verb, sorted(verbs), n=1, cutoff=0.6)
    return close[0] if close else None
