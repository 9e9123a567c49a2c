"""What a search for the lines to change found: a table for people."""

from __future__ import annotations

from bot.markdown import code, details, prose
from pipeline.codebase.text import pluralize
from pipeline.types import Located, SearchRecord


def render_search(record: SearchRecord) -> str:
    """A folded section: each answer that the edits started from, with its scores and places."""
    drawn = pluralize(record.width, "answer")
    sentences = [
        f"Each stage of the search drew {drawn}; the edits started from "
        f"{pluralize(len(record.located), 'answer')} in turn.",
        *(prose(note, 400) for note in record.notes),
    ]
    parts = [" ".join(sentences)]
    if record.located:
        rows = [
            row
            for number, located in enumerate(record.located, 1)
            for row in _render_rows(number, located)
        ]
        parts.append("\n".join(["| answer | place | why | score |", "|--:|---|---|--:|", *rows]))
    places = sum(len(located.places) for located in record.located)
    return details(f"Search: {pluralize(places, 'place')} named", "\n\n".join(parts))


def _render_rows(number: int, located: Located) -> list[str]:
    """A row for each place; for each file, where no lines were named."""
    if not located.places:
        score = _render_score(located.files_score)
        return [
            f"| {number} | {code(file.path)} | {_to_cell(file.why)} | {score} |"
            for file in located.files
        ]
    score = _render_score(located.places_score)
    return [
        f"| {number} | {code(f'{place.path}:{place.lines}')} | {_to_cell(place.why)} | {score} |"
        for place in located.places
    ]


def _render_score(score: float | None) -> str:
    return "" if score is None else f"{score:.2f}"


def _to_cell(text: str) -> str:
    return prose(" ".join(text.split()).replace("|", "¦"), 200)
