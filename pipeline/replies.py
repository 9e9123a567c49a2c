"""Parses a model's reply: exactly one block of the right kind, or a hint."""

import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

_FENCE = re.compile(r"(```+|~~~+)[^\n`]*")
_THOUGHTS = {
    r"<(?:think|thinking|thoughts?|reasoning|reflection|seed:think)>": "",
    r"\[THINK\]": "[/THINK]",
    "◁think▷": "◁/think▷",
    r"<\|START_THINKING\|>": "<|END_THINKING|>",
    r"<\|channel\|>(?:analysis|commentary)[^<\n]{0,80}<\|message\|>": "<|end|>",
}
"""How thoughts begin and end where no parser has parted them (empty: by the same name): DeepSeek,
Qwen, Gemma, Seed; Magistral; Kimi; Command A; gpt-oss."""
_BLOCKS = (
    "script|edit|bash|tests|submit|approve|fixed|no_issue|choice|why|asked|alike|ranking|title|cause"
    "|change|test_file|answer|summary|fault|same|setup|give_up|python|approaches|complete|score|files"
    "|places"
)
_OPENING = rf"^[ \t]*(?:(?:[`*]{{1,3}})?<(?P<block>{_BLOCKS})\s*>|(?P<fence>```+|~~~+))"
_BEGINS = re.compile(rf"{_OPENING}|(?<![`'\"])(?P<thought>{'|'.join(_THOUGHTS)})", re.MULTILINE)
_ENDS = re.compile(
    rf"{_OPENING}|(?<![`'\"])(?P<end></(?:think|thinking|thoughts?|reasoning|seed:think)>"
    r"|\[/THINK\]|◁/think▷|<\|END_THINKING\|>)[ \t]*$",
    re.MULTILINE,
)
_VISIBLE = re.compile(r"\S")
_HARMONY = re.compile(r"<\|(?:start\|>assistant|channel\|>final|\w+\|>)")


class _Mark(NamedTuple):
    """A tag that may end a block, or begin another one."""

    start: int
    end: int
    opens: str
    """The name of the block that it begins; empty for a closing tag."""
    late: bool
    """Whether it closes behind other text of its line."""


_Tags = dict[str, list[_Mark]]
"""By the name of a block: the tags that its end is found among, looked for once; none where no
later part of the text closes it."""


@lru_cache(maxsize=8)  # each reader of a reply begins with it
def split_thoughts(text: str) -> tuple[str, str]:
    """The thoughts in `text`, of every family and wherever they stand, and the rest.

    What stands inside a block is its content, `</think>` too. Some chat templates open the thoughts
    themselves, so that only their end is in the text; thoughts that never end were cut off, and
    nothing was said after them.
    """
    thoughts: list[str] = []
    said: list[str] = []
    stop, at = _find_end_alone(text)
    thoughts += [text[:stop]] * bool(at)
    absent: set[str] = set()
    tags: _Tags = {}
    place = at
    while begin := _BEGINS.search(text, place):
        place = begin.end()
        if not begin["thought"]:
            place = _skip_quoted(text, begin, absent, tags)
            continue
        closing = next(end for start, end in _THOUGHTS.items() if re.fullmatch(start, begin[0]))
        closing = closing or f"</{begin[0][1:]}"
        stop = -1 if closing in absent else _find_unquoted(text, closing, place)
        if stop < 0:
            absent.add(closing)
            if _VISIBLE.search(text, at, begin.start()):  # a word in prose
                continue
        said.append(text[at : begin.start()])
        thoughts.append(text[place:stop] if stop >= 0 else text[place:])
        at = place = stop + len(closing) if stop >= 0 else len(text)
    rest = "".join((*said, text[at:]))
    if not thoughts and not _HARMONY.match(text):
        return "", text
    return "\n\n".join(one.strip() for one in thoughts), _HARMONY.sub("", rest).lstrip()


def _find_unquoted(text: str, closing: str, at: int) -> int:
    """The first place that is not in quotation marks or backticks; else the first; -1 if none."""
    plain = re.compile(rf"(?<![`'\"]){re.escape(closing)}").search(text, at)
    return plain.start() if plain else text.find(closing, at)


def _find_end_alone(text: str) -> tuple[int, int]:
    """Where the end of thoughts begins and ends that a template began: outside of every block,
    before any beginning; zeros if there are none."""
    first = next((m.start() for m in _BEGINS.finditer(text) if m["thought"]), len(text))
    at, absent, tags = 0, set[str](), _Tags()
    while (match := _ENDS.search(text, at)) and match.start() < first:
        if match["end"]:
            return match.start(), match.end()
        at = _skip_quoted(text, match, absent, tags)
    return 0, 0


def _skip_quoted(text: str, begin: re.Match[str], absent: set[str], tags: _Tags) -> int:
    """Where a block or a fence ends; where its beginning does if it never ends."""
    if name := begin["block"]:
        end = _find_closing(text, name, begin.end(), tags)
        return end[1] if end else begin.end()
    fence = f"\n{begin['fence']}"
    stop = -1 if fence in absent else text.find(fence, begin.end())
    if stop < 0:
        absent.add(fence)
    return stop + len(fence) if stop >= 0 else begin.end()


@dataclass(frozen=True)
class Malformed:
    """The reply violates the format; `hint` is sent to the model verbatim."""

    hint: str


@dataclass(frozen=True)
class Tag:
    name: str
    body: str
    """The content without surrounding line breaks, and without a code fence around all of it."""


def only_tag(reply: str, *allowed: str) -> Tag | Malformed:
    """The one block of an allowed kind in `reply`.

    A tag counts if it begins a line (after white space and a code fence at most), so that prose may
    mention a tag. Without a tag, one fenced block is taken where only one kind can be meant. A
    block ends at the last closing tag of its name that begins a line before another block, else at
    the first one that ends a line; a tag inside a block is that block's content. `<approve/>` and
    `<approve></approve>` are the same. Thoughts are dropped (`split_thoughts`). When no tag begins
    a line, one whole block inside a line is taken.
    """
    found = _find_blocks(reply, allowed) or _find_inline(reply, allowed)
    return _only(found or _find_fenced(reply, allowed), reply, allowed)


def only_tag_or_approval(
    reply: str, *allowed: str, approval: str = "approve"
) -> tuple[Tag | Malformed, bool]:
    """Parse the only block (see `only_tag`), and whether an `<approve/>` (`approval`) accompanies
    it.

    With `approve` among `allowed`, a lone `<approve/>` is the one block. Beside another block, it
    approves that block in advance, on condition that its run succeeds.
    """
    found = _find_blocks(reply, (*allowed, approval)) or _find_inline(reply, allowed)
    others = [tag for tag in found if tag.name != approval] or _find_fenced(reply, allowed)
    if approval in allowed and not others:
        return _only(found[:1], reply, allowed), False
    only = _only(others, reply, allowed, beside=approval)
    return only, len({*others}) == 1 and any(tag.name == approval for tag in found)


def _only(
    found: list[Tag], reply: str, allowed: tuple[str, ...], beside: str = ""
) -> Tag | Malformed:
    """The only block, be it repeated; `beside` names one that may accompany it, and has been left
    out."""
    wanted = " or ".join(f"<{name}>" for name in allowed)
    if not found:
        return _missing_block(reply, allowed, wanted)
    if len({*found}) > 1:
        names = ", ".join(f"<{tag.name}>" for tag in found)
        return Malformed(
            f"Your reply holds {len(found)} blocks ({names}), so nothing was done. "
            f"Answer with exactly one {wanted} block"
            + (f"; only <{beside}/> may stand beside it." if beside else ".")
        )
    return found[0]


def tags(reply: str, *names: str) -> dict[str, str] | Malformed:
    """The body of each named block; each must occur exactly once."""
    found = _find_blocks(reply, names)
    for name in names:
        count = sum(tag.name == name for tag in found)
        if count == 0:
            return _missing_block(reply, (name,), f"<{name}>")
        if count > 1:
            return Malformed(
                f"Your reply holds {count} <{name}> blocks. Answer with exactly one of each: "
                + ", ".join(f"<{each}>" for each in names)
                + "."
            )
    return {tag.name: tag.body for tag in found}


def some_tags(reply: str, *names: str) -> dict[str, str] | Malformed:
    """The body of each named block that `reply` contains; none may occur twice."""
    found = _find_blocks(reply, names)
    for name in names:
        if sum(tag.name == name for tag in found) > 1:
            return Malformed(f"Your reply holds more than one <{name}> block. Answer with one.")
    return {tag.name: tag.body for tag in found}


def strip_fence(text: str) -> str:
    """`text` without a Markdown code fence around the whole of it."""
    lines = text.strip().split("\n")
    fence = _FENCE.fullmatch(lines[0])
    if fence is None or len(lines) < 2 or lines[-1].strip() != fence.group(1):
        return text
    return "\n".join(lines[1:-1])


def _missing_block(reply: str, allowed: tuple[str, ...], wanted: str) -> Malformed:
    for name in allowed:
        if re.search(rf"^[ \t]*<{name}>", reply, re.MULTILINE):
            return Malformed(
                f"Your reply opens <{name}> and never closes it with </{name}> on a line of its "
                "own. If it was cut off, write less around the block."
            )
    return Malformed(
        f"Your reply holds no {wanted} block, so nothing was done. Answer with exactly one, "
        "its tags on lines of their own."
    )


def _find_blocks(reply: str, allowed: tuple[str, ...]) -> list[Tag]:
    """The blocks in the order of the reply."""
    reply = split_thoughts(reply)[1].replace("\r\n", "\n")
    found: list[Tag] = []
    at = 0
    names = "|".join(map(re.escape, allowed))
    opening = re.compile(rf"^[ \t]*(?:[`*]{{1,3}})?<({names})\s*(/?)>", re.MULTILINE)
    tags: _Tags = {}
    while match := opening.search(reply, at):
        at = match.end()
        name = match.group(1)
        if match.group(2):
            found.append(Tag(name, ""))
        elif end := _find_closing(reply, name, at, tags):
            found.append(Tag(name, strip_fence(reply[at : end[0]]).strip("\n")))
            at = end[1]
    return found


def _find_inline(reply: str, allowed: tuple[str, ...]) -> list[Tag]:
    """Blocks within one line, such as in `I take <choice>2</choice>.`"""
    names = "|".join(map(re.escape, allowed))
    found = re.findall(rf"<({names})>([^<\n]+)</\1>", split_thoughts(reply)[1])
    return [Tag(name, body.strip()) for name, body in found]


def _find_fenced(reply: str, allowed: tuple[str, ...]) -> list[Tag]:
    """The one fenced block of a reply without tags, where only one of `allowed` can be meant."""
    names = [name for name in allowed if name not in ("approve", "no_issue", "give_up")]
    lines = split_thoughts(reply)[1].replace("\r\n", "\n").split("\n")
    fences = [at for at, line in enumerate(lines) if _FENCE.fullmatch(line.strip())]
    if len(names) != 1 or len(fences) != 2 or f"<{names[0]}>" in reply:
        return []
    return [Tag(names[0], "\n".join(lines[fences[0] + 1 : fences[1]]))]


_MOST_AFTER = 50
"""Tags after an end that are looked at for a later one."""


def _find_closing(reply: str, name: str, start: int, tags: _Tags) -> tuple[int, int] | None:
    """The positions where the closing tag begins and ends. Asked of ever later places.

    A block that quotes whole ones of its own name ends after them. Of several closing tags that no
    block needs, the last before one of another name begins is its end.
    """
    same_line = re.compile(rf"[^\n]*?(</{name}>)[`* \t]*(?=\n|\Z)").match(reply, start)
    if same_line:
        return same_line.start(1), same_line.end()
    if name not in tags:
        tag = re.compile(
            rf"^[ \t]*(?:[`*]{{1,3}})?<(?P<open>{_BLOCKS})\s*>|^[ \t]*(?P<close></{name}>)"
            rf"|(?P<late></{name}>)[`* \t]*$",
            re.MULTILINE,
        )
        tags[name] = [
            _Mark(*one.span(), one["open"] or "", bool(one["late"]))
            for one in tag.finditer(reply, start)
        ]
    there = tags[name]
    first = bisect_left(there, (start,))
    last, unfit = _fit_end((there[at] for at in range(first, len(there))), name)
    if not (found := last or unfit):
        tags[name] = []
        return None
    return found.start, found.end


def _fit_end(found: Iterable[_Mark], name: str) -> tuple[_Mark | None, _Mark | None]:
    """Of the tags after the beginning of a block `name`, its end; and what may be it otherwise."""
    depth, after = 1, 0
    last: _Mark | None = None
    unfit: _Mark | None = None
    for mark in found:
        after += bool(last or unfit)
        if after > _MOST_AFTER or (last and mark.opens not in ("", name)):
            break
        if mark.opens:
            depth += mark.opens == name
        elif mark.late:
            unfit = unfit or mark
        elif not depth or (depth == 1 and not last):
            last, depth = mark, 0
        else:
            unfit, depth = mark, depth - 1
    return last, unfit


NothingToFix = Literal["question", "wish", "elsewhere"]
"""The issue asks a question, does not say what it wants, or another package is at fault."""


def read_no_issue(body: str) -> tuple[NothingToFix, str] | Malformed:
    """The kind and the answer to the reporter in a `<no_issue>` block."""
    first, _, why = body.strip().partition("\n")
    kinds: dict[str, NothingToFix] = {kind: kind for kind in get_args(NothingToFix)}
    kind = kinds.get(first.strip().strip("`.:").lower())
    if kind is None:
        return Malformed(f"The first line of <no_issue> must be one of {', '.join(kinds)}.")
    return kind, " ".join(why.split())
