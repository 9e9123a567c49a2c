"""What the model that writes an edit is shown of a search."""

from __future__ import annotations

from pipeline.codebase.commit import Codebase
from pipeline.context.tokens import estimate_tokens
from pipeline.generation.exploring.machine import cut_context
from pipeline.shown import Located
from pipeline.types import Context, SourceFile, replace


async def show_located(
    context: Context, located: Located, codebase: Codebase, tokens: int
) -> Context:
    """`context` with the located files first, cut to `tokens`.

    Located files that it lacks are added whole; one of more than half of `tokens` is not: the
    places show its lines.
    """
    known = {file.path: file for file in context.files}
    wanted = [place.path for place in located.places] + [file.path for file in located.files]
    first: dict[str, SourceFile] = {}
    for path in dict.fromkeys(wanted):
        file = known.get(path) or await _read_file(codebase, path)
        if file is not None and (path in known or file.tokens <= tokens // 2):
            first[path] = file
    rest = [file for file in context.files if file.path not in first]
    whole = replace(context, files=(*first.values(), *rest))
    most = max(tokens, sum(file.tokens for file in context.files))
    shown, others = cut_context(whole, most)
    return replace(context, files=tuple(shown), dropped=others)


async def _read_file(codebase: Codebase, path: str) -> SourceFile | None:
    text = await codebase.read_text(path) if path in codebase.files else None
    return SourceFile(path=path, text=text, tokens=estimate_tokens(text)) if text else None
