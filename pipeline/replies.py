"""Parses a model's reply: exactly one block of the right kind, or a hint."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

_FENCE = re.compile(r"(```+|~~~+)[^\n`]*")
_THINKING = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


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
    block ends at the first closing tag of its name that begins a line, else at the
    first one that ends a line; a tag inside a block is that block's content. `<approve/>` and
    `<approve></approve>` are the same. A leading `<think>` block is dropped. When no tag begins a
    line, one whole block inside a line is taken.
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
    return only, len(others) == 1 and any(tag.name == approval for tag in found)


def _only(
    found: list[Tag], reply: str, allowed: tuple[str, ...], beside: str = ""
) -> Tag | Malformed:
    """The only block; `beside` names one that may accompany it, and has been left out."""
    wanted = " or ".join(f"<{name}>" for name in allowed)
    if not found:
        return _missing_block(reply, allowed, wanted)
    if len(found) > 1:
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
    reply = _THINKING.sub("", reply).replace("\r\n", "\n")
    found: list[Tag] = []
    at = 0
    names = "|".join(map(re.escape, allowed))
    opening = re.compile(rf"^[ \t]*(?:[`*]{{1,3}})?<({names})\s*(/?)>", re.MULTILINE)
    absent: set[str] = set()
    while match := opening.search(reply, at):
        at = match.end()
        name = match.group(1)
        if match.group(2):
            found.append(Tag(name, ""))
        elif end := _find_closing(reply, name, at, absent):
            found.append(Tag(name, strip_fence(reply[at : end[0]]).strip("\n")))
            at = end[1]
    return found


def _find_inline(reply: str, allowed: tuple[str, ...]) -> list[Tag]:
    """Blocks within one line, such as in `I take <choice>2</choice>.`"""
    names = "|".join(map(re.escape, allowed))
    found = re.findall(rf"<({names})>([^<\n]+)</\1>", _THINKING.sub("", reply))
    return [Tag(name, body.strip()) for name, body in found]


def _find_fenced(reply: str, allowed: tuple[str, ...]) -> list[Tag]:
    """The one fenced block of a reply without tags, where only one of `allowed` can be meant."""
    names = [name for name in allowed if name not in ("approve", "no_issue", "give_up")]
    lines = _THINKING.sub("", reply).replace("\r\n", "\n").split("\n")
    fences = [at for at, line in enumerate(lines) if _FENCE.fullmatch(line.strip())]
    if len(names) != 1 or len(fences) != 2 or f"<{names[0]}>" in reply:
        return []
    return [Tag(names[0], "\n".join(lines[fences[0] + 1 : fences[1]]))]


def _find_closing(reply: str, name: str, start: int, absent: set[str]) -> tuple[int, int] | None:
    """The positions where the closing tag begins and ends; `absent`: forms that no later part of
    the reply has, which are not searched for again."""
    same_line = re.compile(rf"[^\n]*?(</{name}>)[`* \t]*(?=\n|\Z)").match(reply, start)
    if same_line:
        return same_line.start(1), same_line.end()
    for pattern in (rf"^[ \t]*</{name}>", rf"</{name}>[`* \t]*$"):
        if pattern in absent:
            continue
        if match := re.compile(pattern, re.MULTILINE).search(reply, start):
            return match.start(), match.end()
        absent.add(pattern)
    return None


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
