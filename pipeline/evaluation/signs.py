"""Which way each number of the evidence may count, so that padding an edit never helps it.

What a source can add at will (lines, files, scripts, a word that looks good) may only speak
against its edit; what such additions lower, likeness to the others above all, only for it. So code
that is of no use, however much, does not make an edit preferred.

One exception: that *something* lies aside (a test, a document, a left script) may count either way.
On public edits it tells the better systems, and most of what the ranking gains over likeness alone
comes from it. It is easily added, so it counts once.
"""

from __future__ import annotations

_AGAINST = frozenset(
    {
        *("added", "added_beyond", "removed", "removed_beyond", "regions", "files", "new_file"),
        *("tests", "definition", "imports", "guard", "raises", "prints"),
        *("file_named", "place_named", "alone", "entropy", "distinct"),
    }
)
_FOR = frozenset({"adds_only", "removes_only", "share", "support", "leads", "margin"})
_KINDS = ("tokens_", "lines_", "places_")
_FREE = frozenset({"aside", "bias", "candidates"})


def sign(name: str) -> int:
    """-1: the weight must not be positive; 1: not negative; 0: it may be either.

    `chosen_` before a name makes no difference. Raises KeyError for a name of which nothing is
    known.
    """
    name = name.removeprefix("chosen_")
    if name in _AGAINST:
        return -1
    if name in _FOR or name.startswith(_KINDS):
        return 1
    if name in _FREE or name.startswith("record"):
        return 0
    raise KeyError(name)
