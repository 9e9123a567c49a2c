"""The issue as the model reads it, fixed when the run begins."""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from bot.admission.check import Admission
from bot.admission.trust import CommentFilter, is_edited_since, restore_requested_version
from bot.data.github_facts import CommentFacts, IssueFacts
from bot.data.run import IssueVersion, Login, Mode, SkippedComments
from bot.errors import RunRefused
from bot.github.attachments import (
    MOST_FILES,
    MOST_PICTURES,
    Attached,
    AttachmentReader,
    file_name,
    find_attached,
    find_signed,
)
from bot.github.repository import Repository
from bot.safe_text import block, code
from bot.storage.keys import ISSUE_KEY
from bot.storage.lease import Lease
from bot.storage.runs import VERSION_KEY
from bot.visible_text import find_unseen, visible_text
from pipeline.data.types import Issue
from prompts.text import pluralize, strip_invisible
from sandbox.frozen import replace

MAX_COMMENTS = 50
MAX_DISCUSSION_CHARACTERS = 60_000
"""Of all comments together; the latest are kept."""
_MOST_RENDERED = 10 * MAX_DISCUSSION_CHARACTERS


async def load_issue(
    repo: Repository, lease: Lease, admission: Admission, *, github_url: str, sees: bool
) -> Issue:
    """The text that the run answers. The first worker saves it, and all later ones use that.

    Its pictures are fetched for a model that `sees`.

    Raises:
        RunRefused: the issue was edited after the request, and the text that the requester saw is
            unknown; or it is nothing but attachments, and none could be read.
        GitHubError, LeaseLost.
    """
    store, run = lease.checkpoints, lease.run
    saved = await store.load(ISSUE_KEY, Issue)
    if saved is not None:
        return saved
    requested = await store.load(VERSION_KEY, IssueVersion)
    if requested is None and await is_edited_since(repo, admission.issue, run.asked_at):
        raise RunRefused("edited")
    comments = repo.issues.list_comments(run.issue, count=admission.issue.comments)
    comment_filter = CommentFilter(repo, admission.issue, admission.config, run.asked_at)
    kept, skipped = await comment_filter.apply(comments)
    facts, edited = restore_requested_version(admission.issue, requested)
    # In threads: to render a hostile text takes up to a second.
    issue = await asyncio.to_thread(
        build_issue, admission.facts.full_name, facts, kept, repo.identity.login
    )
    attached = await asyncio.to_thread(find_attached, facts.body or "")
    signed: dict[str, str] = {}
    if sees and attached.pictures:
        signed = find_signed(await repo.issues.get_body_html(admission.issue))
    async with AttachmentReader(github_url) as reader:
        issue, unread = await add_attachments(issue, attached, reader, signed, sees=sees)
    own = repo.identity.login.lower()
    others = [one.body or "" for one in kept if one.author.lower() != own][-MAX_COMMENTS:]
    skipped = await asyncio.to_thread(count_unread, skipped, facts.body or "", others)
    skipped = replace(
        skipped, edited=edited, pictures=unread.pictures, files=unread.files, attached=unread.read
    )
    await lease.save(replace(run, skipped=skipped))
    if unread.is_all and not run.confirmed and run.mode is not Mode.AUTO:
        raise RunRefused("only pictures")
    await store.save(ISSUE_KEY, issue)
    return issue


def count_unread(
    skipped: SkippedComments, body: str, comments: Iterable[str] = ()
) -> SkippedComments:
    """`skipped` with what is left out of an issue's `body` and, as far as `build_issue` renders
    them, of `comments`. Takes up to a second."""
    texts = [body, *comments]
    total = accumulate(map(len, texts))
    read = (text for text, size in zip(texts, total, strict=True) if size <= _MOST_RENDERED)
    hidden, folded = find_unseen(read)
    declared = leave_out_form(visible_text(body))[1]
    return replace(
        skipped, hidden=len(hidden), hidden_characters=sum(hidden), folded=folded, declared=declared
    )


class Unread(NamedTuple):
    """What people attached to an issue and no model will see, and what one will."""

    pictures: int
    files: int
    read: tuple[str, ...]
    """Files by name, with their size."""
    is_all: bool
    """Whether the issue says nothing else, but for its title."""


async def add_attachments(
    issue: Issue,
    attached: Attached,
    reader: AttachmentReader,
    signed: Mapping[str, str],
    *,
    sees: bool,
) -> tuple[Issue, Unread]:
    """`issue` with its attached pictures, for a model that `sees`, and the text of its files."""
    pictures = [
        picture
        for url in attached.pictures[: MOST_PICTURES if sees else 0]
        if (picture := await reader.fetch_picture(url, signed))
    ]
    files = [
        (file_name(url), strip_invisible(text))
        for url in attached.files[:MOST_FILES]
        if (text := await reader.fetch_text(url))
    ]
    words = issue.body.replace("[image]", "")
    for url in attached.files:
        words = words.replace(file_name(url), "")
    lost = Unread(
        len(attached.pictures) - len(pictures),
        len(attached.files) - len(files),
        tuple(f"{name} ({pluralize(len(text), 'character')})" for name, text in files),
        is_all=any(attached)
        and not (re.search(r"\w", words) or pictures or files or issue.discussion),
    )
    shown = (f"Attached file {code(name)}:\n\n{block(text, 20_000)}" for name, text in files)
    body = "\n\n".join((issue.body, *shown))
    return replace(issue, body=body, pictures=tuple(pictures)), lost


_DECLARED = re.compile(
    r"- \[[xX ]\] I(?:'ve| have)? (?:already )?(?:agree|accept|understand|acknowledge|promise"
    r"|(?:read|searched|looked|followed|reviewed)"
    r"|checked (?:that this \w{1,9} has|the|for|existing|open|all)|(?:am|would be) willing)\b"
)
_NO_ANSWER = "_No response_"


def leave_out_form(text: str) -> tuple[str, int]:
    """`text` without what GitHub's issue forms write in a reporter's place: questions without an
    answer, and ticked declarations such as "I have searched"; also how many of the latter."""
    sections: list[tuple[list[str], list[str]]] = [([], [])]
    in_code = in_item = False
    for line in text.split("\n"):
        in_code ^= line.startswith("```")
        in_item = not in_code and (bool(_DECLARED.match(line)) or (in_item and line[:2] == "  "))
        if line.startswith("### ") and not in_code:
            sections.append(([], []))
        sections[-1][in_item].append(line)
    kept: list[str] = []
    for lines, left_out in sections:
        answer = "\n".join(lines[1:]).strip()
        is_question = bool(lines) and lines[0].startswith("### ")
        if not (is_question and answer == ("" if left_out else _NO_ANSWER)):
            kept += lines
    declared = (line for _, left_out in sections for line in left_out if line[0] == "-")
    return "\n".join(kept).strip(), sum(1 for _ in declared)


def build_issue(
    repository: str, issue: IssueFacts, comments: Sequence[CommentFacts], own_login: Login
) -> Issue:
    """Each comment begins with its author's login; our own and empty ones are left out."""
    lines: list[str] = []
    rendered = 0
    for comment in reversed(comments):
        if comment.author.lower() == own_login.lower():
            continue
        rendered += len(comment.body or "")
        if text := quote_comment(comment):
            lines.insert(0, text)
        if len(lines) == MAX_COMMENTS or sum(map(len, lines)) > MAX_DISCUSSION_CHARACTERS:
            break
        if rendered > _MOST_RENDERED:  # much of which nothing is seen
            break
    while sum(map(len, lines)) > MAX_DISCUSSION_CHARACTERS:
        lines.pop(0)
    return Issue(
        repository=repository,
        number=issue.number,
        title=" ".join(strip_invisible(issue.title).split()),
        body=_truncate(leave_out_form(visible_text(issue.body or ""))[0], 60_000),
        discussion=tuple(lines),
    )


def quote_comment(comment: CommentFacts) -> str:
    """The comment as the model reads it; empty where nothing of it is seen."""
    text = visible_text(comment.body or "")
    return f"{comment.author}: {_truncate(text, 10_000)}" if text else ""


def _truncate(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}\n[… cut …]"
