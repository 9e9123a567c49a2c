"""Ranks files by the embedding similarity between the issue and each file's best part.

The best part of about 1,200 characters says more than a whole file or its outline.
"""

from __future__ import annotations

import asyncio
import base64
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from operator import mul
from struct import pack, unpack

from pipeline.concurrency import gather_bounded
from pipeline.context.files.cache import ContentCache
from pipeline.context.files.sources import Source, Sources
from pipeline.data.types import Issue
from pipeline.models.base import Embedder, EmbeddingFailed, Vector

_TOPIC = "vectors 1"
"""Change it whenever the same content would be cut or stored differently."""
_PART = 1200
"""Characters."""
_FILES = 32
"""How many files' vectors are saved at once, so that little is lost if the model fails."""
_TEXTS = 64
_CONCURRENCY = 4


@dataclass(frozen=True)
class EmbeddingRanker:
    """The operator's embedding model, and the most files that it embeds."""

    embedder: Embedder
    files: int = 3_000


async def compute_similarity(
    sources: Sources, files: Sequence[Source], issue: Issue, embedder: Embedder, cache: ContentCache
) -> dict[str, float]:
    """For each path the cosine similarity, -1 to 1, of its best part with the issue.

    Vectors are cached by content and model.

    Raises:
        EmbeddingFailed: the model is unreachable or its reply unusable; earlier vectors are kept.
        BudgetSpent: the ceiling is reached.
    """
    (asked,) = await embedder.embed([f"{issue.title}\n{issue.body}"[:_PART]])
    topic = f"{_TOPIC} {len(asked)} {embedder.name}"
    near: dict[str, float] = {}
    for start in range(0, len(files), _FILES):
        some = {file.blob: file for file in files[start : start + _FILES]}
        kept = await asyncio.to_thread(cache.get, topic, some)
        new = [file for blob, file in some.items() if blob not in kept]
        encoded = await _embed_parts(sources, new, embedder, len(asked))
        await asyncio.to_thread(cache.put, topic, encoded.items())
        near.update(await asyncio.to_thread(_best_cosines, _normalize(asked), kept | encoded))
    return {file.path: near[file.blob] for file in files}


def split_parts(text: str) -> list[str]:
    """`text` in parts of at most 1,200 characters that end at line ends where they can."""
    found = re.findall(rf"(?s)(?:.{{1,{_PART - 1}}}(?:\n|\Z))|.{{1,{_PART}}}", text)
    # Words alone cover the rest.
    return [part for part in found if part.strip()][:200]


async def _embed_parts(
    sources: Sources, files: Sequence[Source], embedder: Embedder, length: int
) -> dict[str, str]:
    """The vectors of each blob's parts, as they are stored."""
    parts = [
        (source.blob, part)
        for source, file in zip(files, [f async for f in sources.stream(files)], strict=True)
        for part in split_parts(file.text)
    ]
    texts = [text for _, text in parts]
    asked = [embedder.embed(texts[at : at + _TEXTS]) for at in range(0, len(texts), _TEXTS)]
    vectors = [vector for some in await gather_bounded(_CONCURRENCY, asked) for vector in some]
    encoded = {file.blob: bytearray() for file in files}
    for (blob, _), vector in zip(parts, vectors, strict=True):
        if len(vector) != length:
            raise EmbeddingFailed(f"it gave vectors of {length} and of {len(vector)} numbers")
        # Two bytes per number are precise enough for a ranking.
        encoded[blob] += pack(f"<{length}e", *_normalize(vector))
    return {blob: base64.b64encode(packed).decode() for blob, packed in encoded.items()}


def _best_cosines(asked: Vector, kept: Mapping[str, str]) -> dict[str, float]:
    return {blob: max(_cosines(asked, stored), default=-1.0) for blob, stored in kept.items()}


def _cosines(asked: Vector, stored: str) -> Iterator[float]:
    packed = base64.b64decode(stored)
    size = 2 * len(asked)
    for at in range(0, len(packed), size):
        yield sum(map(mul, asked, unpack(f"<{len(asked)}e", packed[at : at + size])))


def _normalize(vector: Vector) -> Vector:
    length = sqrt(sum(map(mul, vector, vector)))
    return array("f", (number / length for number in vector)) if length else vector
