"""Names each edit of a run, the same everywhere: A is the chosen or best edit, B the next best.

Only the prompts of the choice itself differ: they are written before anybody knows which edit
becomes A, so they letter the finalists by their rank so far. No later prompt names edits.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.types import NoFix, Selection, VoteTable

_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def rank_edits(table: VoteTable, order: Sequence[int] = ()) -> tuple[int, ...]:
    """Indices into `table.candidates`, best first, one for each distinct diff.

    Edits in `order` come first, in that order; the others follow by votes. The first index of a
    diff represents all edits with that diff.
    """
    first: dict[str, int] = {}
    for candidate in (*order, *table.order()):
        first.setdefault(table.candidates[candidate].patch.diff, candidate)
    return tuple(first.values())


def rank_result(result: Selection | NoFix) -> tuple[int, ...]:
    """The ranked edits of a finished run (see `rank_edits`); empty if the run judged no edit.

    `/capuchin use B` takes the second of these.
    """
    match result:
        case Selection():
            proof = result.evidence
            chosen = (proof.votes.candidates.index(result.candidate),)
            return rank_edits(proof.votes, proof.order or chosen)
        case NoFix():
            edits = result.edits
            return rank_edits(edits.votes, edits.order) if edits else ()


def get_votes(result: Selection | NoFix) -> VoteTable | None:
    """The table of the edits that `rank_result` ranks; None if the run judged no edit."""
    if isinstance(result, Selection):
        return result.evidence.votes
    return result.edits.votes if result.edits else None


def assign_letters(table: VoteTable, order: Sequence[int] = ()) -> tuple[str, ...]:
    """The letter of each of `table.candidates`; edits with the same diff share a letter."""
    ranked = rank_edits(table, order)
    by_diff = {table.candidates[c].patch.diff: to_letter(at) for at, c in enumerate(ranked)}
    return tuple(by_diff[candidate.patch.diff] for candidate in table.candidates)


def to_letter(rank: int) -> str:
    """The letter of the edit at `rank`, from 0: A to Z, then AA, AB, …

    Raises:
        ValueError: `rank` is negative.
    """
    if rank < 0:
        raise ValueError("a rank is 0 or more")
    letters = ""
    rest = rank + 1
    while rest:
        rest, at = divmod(rest - 1, len(_ALPHABET))
        letters = _ALPHABET[at] + letters
    return letters


def to_rank(letter: str) -> int | None:
    """The rank, from 0, that `letter` (in either case) names; None if it names no edit."""
    name = letter.strip().upper()
    if not 1 <= len(name) <= 2 or any(character not in _ALPHABET for character in name):
        return None
    rank = 0
    for character in name:
        rank = rank * len(_ALPHABET) + _ALPHABET.index(character) + 1
    return rank - 1


def name_edits(table: VoteTable, order: Sequence[int] = ()) -> tuple[str, ...]:
    """The display name of each of `table.candidates`: its letter, or its source.

    Untrusted if an edit has a `source`.
    """
    letters = assign_letters(table, order)
    return tuple(c.source or at for c, at in zip(table.candidates, letters, strict=True))
