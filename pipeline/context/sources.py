"""Which files of a codebase are read at all, and which are left out, with the reason."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.codebase import Codebase, File
from pipeline.context.tokens import estimate
from pipeline.text import decoded
from pipeline.types import SourceFile

MAX_TOKENS = 100_000
"""A file with more is not read (CodeMonkeys), but it is named among what was left out."""
_MAX_BYTES = 4 * MAX_TOKENS
_CHUNK = 200

_EXTENSIONS = """
    py pyi pyx pxd c h cc cpp cxx hpp cs go java js jsx kt lua m mjs php pl r rb rs scala sh sql
    swift ts tsx vue html jinja jinja2 j2 mako toml cfg ini yaml yml json
"""
_SOURCES = frozenset(_EXTENSIONS.split())
_ASIDE = re.compile(
    r"(^|/)(node_modules|third_party|\.venv|venv|site-packages|dist|build|__pycache__|\.git[^/]*|"
    r"\.tox|\.eggs|[^/]+\.egg-info|locale|fixtures)/",
    re.IGNORECASE,
)
_MADE = re.compile(
    r"(\.min\.(js|css)|[.-]bundle\.js|_pb2(_grpc)?\.pyi?|"
    r"(^|/)(package-lock\.json|yarn\.lock|[^/]*\.lock|[^/]*-lock\.ya?ml))$",
    re.IGNORECASE,
)
_LONG_LINE = 2000
"""Characters; text with longer lines on average was not written by hand."""


@dataclass(frozen=True)
class Sources:
    files: tuple[SourceFile, ...]
    """Python first, then by path."""
    dropped: tuple[str, ...]
    """Paths of sources that are too large to read."""


async def sources_of(codebase: Codebase) -> Sources:
    """The source files of `codebase`."""
    wanted = sorted(filter(_is_source, codebase.files.values()), key=_order)
    small = [file for file in wanted if file.size <= _MAX_BYTES]
    dropped = [file.path for file in wanted if file.size > _MAX_BYTES]
    files: list[SourceFile] = []
    for start in range(0, len(small), _CHUNK):
        contents = await codebase.read_all(file.path for file in small[start : start + _CHUNK])
        await asyncio.to_thread(_sort_out, contents, files, dropped)
    return Sources(tuple(files), tuple(dropped))


def _sort_out(contents: Mapping[str, bytes], files: list[SourceFile], dropped: list[str]) -> None:
    for path, data in contents.items():
        text = decoded(path, data)
        if text is None or not text.text.strip() or _generated(text.text):
            continue
        tokens = estimate(text.text)
        if tokens > MAX_TOKENS:
            dropped.append(path)
        else:
            files.append(SourceFile(path=path, text=text.text, tokens=tokens))


def _is_source(file: File) -> bool:
    extension = file.path.rpartition(".")[2].lower()
    return (
        file.regular
        and extension in _SOURCES
        and not _ASIDE.search(file.path)
        and not _MADE.search(file.path)
    )


def _generated(text: str) -> bool:
    return len(text) > _LONG_LINE * (text.count("\n") + 1)


def _order(file: File) -> tuple[bool, str]:
    return (not file.path.endswith((".py", ".pyi")), file.path)
