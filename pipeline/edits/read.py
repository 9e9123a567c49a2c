"""An edit as a model writes it, to a diff or a reason to refuse it."""

import asyncio
import dataclasses
import difflib
import html
import re
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pipeline.codebase.commit import MOST_TEXT, Codebase
from pipeline.codebase.text import Text, decode_text
from pipeline.data.types import Patch
from pipeline.edits.match import Ambiguous, Missing, Unchanged, find_nearest, replace_once
from pipeline.edits.names import check_new_name, read_name
from pipeline.edits.patches import NO_CHANGES, PatchedFile, check_new, create_patch, refusal
from pipeline.replies import Malformed
from prompts.text import shorten

_SEARCH = re.compile(r"<{5,9} ?SEARCH\s*")
_DIVIDER = re.compile(r"={7}\s*")
_REPLACE = re.compile(r">{5,9} ?REPLACE\s*")
_DELETE = re.compile(r"<{5,9} ?DELETE(?: ?>{5,9})?")
_RENAME = re.compile(r"<{5,9} ?RENAME\b(?: to(?= ))?(?P<to>.*?)(?: ?>{5,9})?")
_FENCE = re.compile(r"\s*(```|~~~)[\w+-]*\s*")
_MARKER = re.compile(
    r"[ \t]*(?:<{5,9} ?(SEARCH|DELETE|REPLACE|RENAME)\b|>{5,9} ?(SEARCH|REPLACE)\b)"
)
_OTHER = re.compile(r"\*\*\* (?:Begin|End) Patch|@@ -\d|diff --git ")
"""What begins a change in another form: after a block it would be lost."""
_ESCAPED = re.compile(r"^[ \t]*(?:&lt;){5,9} ?SEARCH", re.MULTILINE)
_INDENTED = re.compile(r"^[ \t]+(?=[<>]{5,9} ?(?:SEARCH|REPLACE)[ \t]*$)", re.MULTILINE)
_PROSE = (".rst", ".md", ".markdown", ".mdx", ".txt", ".adoc")
"""Files in which a fence or a line of equals signs may begin or end the text."""
MOST_BLOCKS = 500
"""Of one edit; each is searched in a whole file."""


@dataclass(frozen=True)
class Block:
    """One replacement in a file, or the deletion or renaming of a whole file."""

    path: str
    lines: tuple[str, ...] = ()
    """The lines between the SEARCH and the REPLACE marker, dividers included."""
    deletes: bool = False
    renamed: str = ""
    """The new path of the file; empty for any other block."""

    def splits(self) -> list[tuple[list[str], list[str]]]:
        """Every way to split `lines` at a divider into search and replacement.

        There are several if the code itself has a line of seven equals signs, as in
        reStructuredText headings. The longest search comes first: if the file has its lines, it is
        the intended one.
        """
        dividers = [at for at, line in enumerate(self.lines) if _DIVIDER.fullmatch(line)]
        return [
            (list(self.lines[:at]), list(self.lines[at + 1 :])) for at in reversed(dividers[:20])
        ]


def parse_blocks(body: str, files: Container[str] = ()) -> list[Block] | Malformed:
    """Parse the blocks in the body of an <edit>, in order; `files` are those that exist.

    A block without a path applies to the previous path; after a RENAME, to the new path.
    """
    blocks: list[Block] = []
    path = ""
    lines = _unwrap(body).split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if _SEARCH.fullmatch(line):
            block, at = _parse_replacement(path, lines, at, len(blocks) + 1)
        elif single := _parse_single_line(path, line, len(blocks) + 1, files):
            block = single
        else:
            path = ("" if _FENCE.fullmatch(line) else read_name(line, files)) or path
            continue
        if isinstance(block, Malformed):
            return block
        if not path:
            return Malformed(
                f"Block {len(blocks) + 1} has no file: put the path on the line before its SEARCH "
                "marker."
            )
        blocks.append(block)
        if len(blocks) > MOST_BLOCKS:
            return Malformed(
                f"The <edit> contains more than {MOST_BLOCKS} blocks. Make larger ones."
            )
        path = block.renamed or path
    if not blocks:
        return Malformed(
            "The <edit> contains no block. A block is a line with the path, then <<<<<<< SEARCH, "
            "the lines to find, =======, the lines to put in their place, >>>>>>> REPLACE."
        )
    return blocks


def _parse_replacement(
    path: str, lines: list[str], start: int, number: int
) -> tuple[Block | Malformed, int]:
    for at in range(start, len(lines)):
        if _REPLACE.fullmatch(lines[at]):
            block = Block(path, tuple(lines[start:at]))
            if block.splits():
                return block, at + 1
            return Malformed(f"Block {number} ({path}) has no ======= line."), at
        if _SEARCH.fullmatch(lines[at]):
            break
    return Malformed(f"Block {number} ({path}) is not closed with >>>>>>> REPLACE."), len(lines)


def _unwrap(body: str) -> str:
    """The text with line feeds alone, and without what was put around all of it: entities, as in
    XML, or an indentation, as in a list."""
    body = body.replace("\r\n", "\n")
    if _ESCAPED.search(body) and not any(map(_SEARCH.fullmatch, body.split("\n"))):
        body = html.unescape(body)
    indented = _INDENTED.findall(body)
    lines = body.split("\n")
    if indented and len(set(indented)) == 1:
        is_whole = all(line.startswith(indented[0]) for line in lines if line.strip())
        return "\n".join(line.removeprefix(indented[0]) for line in lines) if is_whole else body
    return body


def _parse_single_line(
    path: str, line: str, number: int, files: Container[str]
) -> Block | Malformed | None:
    """Parse a line that is a block by itself; None for a line between blocks.

    A lone marker is malformed: it may be the rest of a block that ended early because its code
    contains a marker.
    """
    if _DELETE.fullmatch(line.rstrip()):
        return Block(path, deletes=True)
    if rename := _RENAME.fullmatch(line.rstrip()):
        new = read_name(rename["to"], files)
        hint = f"Block {number} ({path}) names no new path: <<<<<<< RENAME new/path"
        return Block(path, renamed=new) if new else Malformed(hint)
    is_other = number > 1 and _OTHER.match(line)
    if is_other or _DIVIDER.fullmatch(line) or _MARKER.match(line):
        return Malformed(
            f"The line {line.strip()[:80]!r} stands outside a block (before block {number} is "
            "whole). The markers are <<<<<<< SEARCH, =======, >>>>>>> REPLACE, each alone on its "
            "line; lines of a file that look like them cannot be part of a block."
        )
    return None


MAX_FILE_BYTES = 1_000_000
MAX_DIFF_CHARACTERS = 1_000_000


@dataclass(frozen=True)
class ParsedEdit:
    patch: Patch
    contents: Mapping[str, bytes | None]
    """The new content of every changed file; None for a deleted file."""


async def read_edit(
    body: str,
    codebase: Codebase,
    *,
    known: Sequence[str] = (),
    never_touch: Iterable[str] = (),
    current: Mapping[str, PatchedFile | None] = NO_CHANGES,
) -> ParsedEdit | Malformed:
    """Read the body of an <edit>; the resulting diff applies to `codebase`.

    `known` are the paths the model has seen, searched for text that is not in the named file;
    `never_touch` are globs of protected paths; `current` are the files as an earlier edit left
    them, which this one continues (see `read_patched`). Nothing is guessed: an ambiguous block is
    answered with a sentence, and the whole edit is rejected.
    """
    match parse_blocks(body, codebase.files):
        case Malformed() as malformed:
            return malformed
        case blocks:
            draft = _Draft(codebase, tuple(known), tuple(never_touch))
            draft.continue_from(current)
    for number, block in enumerate(blocks, 1):
        complaint = await draft.apply(block)
        if complaint:
            where = f"Block {number} of {len(blocks)}: " if len(blocks) > 1 else ""
            return Malformed(f"{where}{complaint} Nothing was changed; send the whole edit again.")
    match draft.changes():
        case Malformed() as malformed:
            return malformed
        case changes:
            patch = await create_patch(codebase, changes, draft.modes)
    if not patch.diff:
        return Malformed("Taken together, the blocks change nothing. Send an edit that does.")
    if len(patch.diff) > MAX_DIFF_CHARACTERS:
        return Malformed("The edit is too big. Change only what the issue needs.")
    return ParsedEdit(patch, changes)


@dataclass
class _Draft:
    """The state of the files after the blocks so far."""

    codebase: Codebase
    known: tuple[str, ...]
    never_touch: tuple[str, ...]
    kinds: dict[str, Text] = field(default_factory=dict[str, Text])
    texts: dict[str, str | None] = field(default_factory=dict[str, str | None])
    """None for a deleted file."""
    binary: set[str] = field(default_factory=set[str])
    modes: dict[str, str] = field(default_factory=dict[str, str])
    """git's modes of the files that have a new path."""
    continued: Collection[str] = ()

    def continue_from(self, current: Mapping[str, PatchedFile | None]) -> None:
        """Take the files as an earlier edit left them; None: deleted."""
        self.continued = current.keys()
        for path, file in current.items():
            if file is None:
                self.texts[path] = None
                continue
            kind = decode_text(path, file.content)
            if kind is None:
                self.binary.add(path)
            self.kinds[path] = kind or Text(file.content.decode("latin-1"), "latin-1")
            self.texts[path] = self.kinds[path].text
            if path not in self.codebase.files:
                self.modes[path] = file.mode

    async def apply(self, block: Block) -> str | None:
        """Make the block's change, or return what is wrong with it."""
        path = block.path
        if refused := self._refusal(path):
            return refused
        file = self.codebase.files.get(path)
        if file is not None and path not in self.texts and file.size > MAX_FILE_BYTES:
            return f"{path} is larger than {MAX_FILE_BYTES} bytes: leave it as it is."
        await self._open(path)
        text = self.texts.get(path)
        block = _tidy(block, text)
        if block.deletes or block.renamed:
            if text is None:
                return self._explain_no_file(path)
            if refused := self._move(path, block.renamed) if block.renamed else None:
                return refused
            self.texts[path] = None
            return None
        if path in self.binary:
            return f"{path} is not a text file."
        if text is None:
            return self._create(block)
        return await self._change(block, text)

    def _refusal(self, path: str) -> str | None:
        file = self.codebase.files.get(path)
        if file and file.size > MOST_TEXT:
            return f"{path} is larger than {MOST_TEXT >> 20} MiB: no edit may touch it."
        return refusal(path, self.codebase.files, self.never_touch)

    def _check_new(self, path: str) -> str | None:
        files = self.codebase.files
        return check_new_name(path, files, blanks=" " in path and any(" " in one for one in files))

    async def _open(self, path: str) -> None:
        if path in self.texts or path not in self.codebase.files:
            return
        data = await self.codebase.read(path)
        kind = decode_text(path, data)
        if kind is None:
            self.binary.add(path)
        # Latin-1 round-trips every byte, so that a binary file can be moved too.
        self.kinds[path] = kind or Text(data.decode("latin-1"), "latin-1")
        self.texts[path] = self.kinds[path].text

    def _move(self, path: str, new: str) -> str | None:
        if refused := self._refusal(new) or self._check_new(new):
            return refused
        if self.texts.get(new) is not None or (
            new in self.codebase.files and new not in self.texts
        ):
            return f"{path} cannot be renamed: {new} exists already."
        self.kinds[new], self.texts[new] = self.kinds[path], self.texts[path]
        file = self.codebase.files.get(path)
        self.modes[new] = file.mode if file else self.modes.get(path, "100644")
        (self.binary.add if path in self.binary else self.binary.discard)(new)
        return None

    def _create(self, block: Block) -> str | None:
        whole = _whole_content(block)
        if whole is None:
            return self._explain_no_file(block.path)
        if refused := self._check_new(block.path):
            return refused
        self.kinds.setdefault(block.path, Text(""))
        self.texts[block.path] = whole
        return None

    async def _change(self, block: Block, text: str) -> str | None:
        whole = _whole_content(block)
        if whole is not None and not text.strip():
            self.texts[block.path] = whole
            return None
        ambiguous: Ambiguous | None = None
        for search, replacement in block.splits():
            match replace_once(text, search, replacement):
                case str(changed):
                    self.texts[block.path] = changed
                    return None
                case Unchanged():
                    return None
                case Ambiguous() as found:
                    ambiguous = found
                case Missing():
                    continue
        if ambiguous:
            return _explain_ambiguous(block.path, ambiguous)
        return await self._explain_missing(block, text)

    async def _has_replaced(self, path: str, search: Sequence[str]) -> bool:
        """Whether the edit that this one continues changed these lines."""
        if path not in self.continued or path not in self.codebase.files:
            return False
        return _holds(await self.codebase.read_text(path), search)

    async def _explain_missing(self, block: Block, text: str) -> str:
        search = block.splits()[-1][0]
        if not any(line.strip() for line in search):
            return f"{block.path} exists and is not empty: give the lines to replace in SEARCH."
        original = self.kinds[block.path].text
        if original != text and _holds(original, search):
            return (
                f"The SEARCH lines are in {block.path} as it is now, but an earlier block of this "
                "edit changes some of them. Make one block of the two."
            )
        if await self._has_replaced(block.path, search):
            return (
                f"The SEARCH lines are in {block.path} of the original code, but your edit so far "
                "changes some of them. This edit continues that one: copy the lines from your diff."
            )
        for other in self.known:
            if other == block.path or other not in self.codebase.files:
                continue
            if _holds(await self.codebase.read_text(other), search):
                return f"The SEARCH lines are not in {block.path}; they are in {other}."
        close = await asyncio.to_thread(find_nearest, text, search)
        if close is None:
            return f"The SEARCH lines are not in {block.path}, nor anything like them."
        at, lines = close
        return (
            f"The SEARCH lines are not in {block.path}. The nearest there, from line {at}:\n"
            f"{shorten(lines, 1500)}\n"
            + ("SEARCH lines are whole lines. " if _is_cut(search, lines) else "")
            + "Copy the lines exactly."
        )

    def _explain_no_file(self, path: str) -> str:
        close = difflib.get_close_matches(path, self.codebase.files, n=3, cutoff=0.7)
        name = path.rsplit("/", 1)[-1]
        close += [p for p in self.codebase.files if p.rsplit("/", 1)[-1] == name and p not in close]
        meant = f" Did you mean {' or '.join(close[:3])}?" if close else ""
        return f"There is no file {path}.{meant} To create a file, leave the SEARCH part empty."

    def changes(self) -> dict[str, bytes | None] | Malformed:
        """The new content of every touched file."""
        contents: dict[str, bytes | None] = {}
        for path, text in self.texts.items():
            try:
                data = None if text is None else self.kinds[path].encode(text)
            except UnicodeEncodeError:
                encoding = self.kinds[path].encoding
                return Malformed(f"{path} is {encoding}, which cannot express your replacement.")
            if data is not None and len(data) > MAX_FILE_BYTES:
                return Malformed(f"{path} would be larger than {MAX_FILE_BYTES} bytes.")
            if data is not None or path in self.codebase.files:
                contents[path] = data
        return check_conflicts(contents, self.codebase)


def _tidy(block: Block, text: str | None) -> Block:
    """`block` without a divider or a fence that a model wrote twice or around its code.

    Only where it can mean nothing else: not in prose, and no divider where the file has such lines.
    """
    if block.path.lower().endswith(_PROSE) or not block.lines:
        return block
    lines = list(block.lines)
    first = next(at for at, line in enumerate(lines) if _DIVIDER.fullmatch(line))
    has_own = text is not None and any(map(_DIVIDER.fullmatch, text.split("\n")))
    if not has_own:
        while first + 1 < len(lines) and _DIVIDER.fullmatch(lines[first + 1]):
            del lines[first + 1]
        # Under a title of at most seven letters it is a heading's line.
        is_last = len(lines) > first + 2 and _DIVIDER.fullmatch(lines[-1])
        if is_last and not 0 < len(lines[-2].strip()) <= len(lines[-1].strip()):
            del lines[-1]
    search, put = lines[:first], lines[first + 1 :]
    bare, new = _without_fence(search), _without_fence(put)
    is_new = not any(line.strip() for line in search)
    if new is not put and (is_new or bare is not search):
        search, put = bare, new
    return dataclasses.replace(block, lines=(*search, lines[first], *put))


def _without_fence(lines: list[str]) -> list[str]:
    """The lines in a Markdown fence; the same list without one around all of it."""
    filled = [at for at, line in enumerate(lines) if line.strip()]
    if len(filled) < 2:
        return lines
    fence, end = _FENCE.fullmatch(lines[filled[0]]), lines[filled[-1]].strip()
    return lines[filled[0] + 1 : filled[-1]] if fence and end == fence[1] else lines


def _whole_content(block: Block) -> str | None:
    """The content of a whole file, if the block searches for nothing; else None."""
    for search, content in block.splits():
        if not any(line.strip() for line in search):
            return "".join(f"{line}\n" for line in content)
    return None


def check_conflicts(
    contents: dict[str, bytes | None], codebase: Codebase
) -> dict[str, bytes | None] | Malformed:
    """Return `contents`, unless a new file's path collides with a folder that another file
    needs."""
    new = [path for path, data in contents.items() if data is not None]
    for path in new:
        for other in new:
            if other.startswith(f"{path}/"):
                return Malformed(f"{path} cannot be both a file and a folder.")
    # A file name that differs only by case is the same file on other systems.
    lower = {path.lower(): path for path in codebase.files if contents.get(path, b"") is not None}
    for path in new:
        there = lower.get(path.lower(), path)
        if there != path and path not in codebase.files:
            return Malformed(f"{path} differs from the existing {there} by case alone.")
        if refused := check_new(path, codebase.files):
            return Malformed(refused)
    return contents


def _holds(text: str | None, search: Sequence[str]) -> bool:
    """Whether the lines `search` are anywhere in `text`."""
    return text is not None and not isinstance(replace_once(text, search, []), Missing)


def _explain_ambiguous(path: str, found: Ambiguous) -> str:
    lines = ", ".join(str(at) for at in found.at[:10])
    return (
        f"The SEARCH lines are in {path} {len(found.at)} times (at lines {lines}). Add lines "
        "around them until they are there once."
    )


def _is_cut(search: Sequence[str], nearest: str) -> bool:
    """Whether the first or the last line of `search` is a part of a line of `nearest`."""
    ends = [line for line in (search[0], search[-1]) if line.strip()]
    lines = nearest.split("\n")
    return any(line != there and line.strip() in there for line in ends for there in lines)
