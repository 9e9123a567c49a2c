"""Runs the repository's own formatters, sealed, on the files that an edit changes."""

import asyncio
import re
import shlex
from collections.abc import Iterable, Sequence
from itertools import islice

from pipeline.codebase.commit import Codebase
from pipeline.codebase.unified_diff import list_paths
from pipeline.data.types import Patch
from pipeline.edits.captured import read_captured
from pipeline.languages.formatters import BIN, HOOKS_FILE, list_local_hooks
from pipeline.languages.language import Formatter
from pipeline.languages.registry import LANGUAGES
from pipeline.replies import Malformed
from sandbox.base import Sandbox
from sandbox.program import CommandRun, shell_command

_MOST_MARKS = 20
_SECONDS = 60.0
_Pairs = Sequence[tuple[Formatter, Sequence[str]]]


async def format_edit(patch: Patch, codebase: Codebase, sandbox: Sandbox) -> Patch:
    """`patch` as the formatters leave it that the repository configures and its environment has.

    A file that they would change without the edit stays as it is written. So does all of the edit
    where they fail, or change another file.

    Raises:
        SandboxUnavailable: a program could not be started, or its end is unknown.
    """
    paths = list_paths(patch.diff)
    formatters = await find_formatters(codebase, sorted(paths))
    known = _restrict(formatters, paths & codebase.files.keys())
    untidy: set[str] = set()
    if known:
        before = await _run(sandbox, known, "")
        untidy = {change.path for change in before.changes or ()}
        if before.changes is None:
            return patch
    formatters = _restrict(formatters, paths - untidy)
    if not formatters:
        return patch
    run = await _run(sandbox, formatters, patch.diff)
    found = await read_captured(run.changes or (), codebase, allow_lock_files=True)
    if isinstance(found, Malformed) or list_paths(found.patch.diff) != paths:
        return patch
    return found.patch


async def find_formatters(codebase: Codebase, paths: Iterable[str]) -> _Pairs:
    """The formatters that the repository configures, each with its files among `paths`."""
    shallow = [path for path in codebase.files if path.count("/") < 3]
    names = [path.rpartition("/")[2] for path in shallow]
    found: list[tuple[Formatter, Sequence[str]]] = []
    for language in LANGUAGES:
        own = [path for path in paths if language.is_source(path)]
        for formatter in language.facts.formatters if own else ():
            for file, says in formatter.marks:
                fit = (
                    p for p, name in zip(shallow, names, strict=True) if re.fullmatch(file, name)
                )
                texts = await codebase.read_texts(islice(fit, _MOST_MARKS))
                if any(re.search(says, text, re.MULTILINE) for text in texts.values()):
                    found.append((formatter, own))
                    break
    if HOOKS_FILE in codebase.files:
        text = await codebase.read_text(HOOKS_FILE) or ""
        found += await asyncio.to_thread(list_local_hooks, text, paths, LANGUAGES)
    return found


def _restrict(formatters: _Pairs, paths: Iterable[str]) -> _Pairs:
    wanted = set(paths)
    kept = ((one, [path for path in own if path in wanted]) for one, own in formatters)
    return [(one, own) for one, own in kept if own]


async def _run(sandbox: Sandbox, formatters: _Pairs, diff: str) -> CommandRun:
    """Run them one after the other, as far as they are installed and the files are there."""
    lines = [
        f"for file in {shlex.join(f'./{path}' for path in own)}; do "
        f'test -f "$file" && {_check_path(one.only)}{shlex.join(one.command)} "$file"; done'
        for one, own in formatters
    ]
    script = "\n".join((f"PATH={BIN}:$PATH", *lines, "true"))
    return await sandbox.run_command(
        shell_command(script, diffs=[diff] if diff else [], seconds=_SECONDS)
    )


_SEARCHES = "import re, sys; sys.exit(not re.search(sys.argv[1], sys.argv[2][2:]))"


def _check_path(pattern: str) -> str:
    """What a formatter's line begins with that takes only files by a pattern, as pre-commit."""
    return f'{shlex.join(("python", "-c", _SEARCHES, pattern))} "$file" && ' if pattern else ""
