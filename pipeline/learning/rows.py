"""Training rows: each trains exactly the request that is served, with the reply that is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pipeline.learning.locations import list_changed_files, list_places
from pipeline.learning.process import render_step
from pipeline.learning.records import AnswerLevel, JudgedAnswer, ReplyRow, SolvedIssue
from pipeline.types import Frozen, Issue
from prompts.templates import render

Split = Literal["train", "test"]
GOOD, BAD = "+", "-"


class ChatMessage(Frozen):
    """A message in the form of chat templates."""

    role: Literal["system", "user", "assistant"]
    content: str


class PolicyRow(Frozen):
    """A reply to imitate (SFT)."""

    issue: str
    split: Split
    stage: str
    prompt: tuple[ChatMessage, ...]
    completion: tuple[ChatMessage, ...]


class ProcessRow(Frozen):
    """An intermediate result with its verdict, `+` or `-` (SWE-Reasoner, equation 3)."""

    issue: str
    split: Split
    level: AnswerLevel
    source: str
    prompt: tuple[ChatMessage, ...]
    completion: tuple[ChatMessage, ...]


class OutcomeRow(Frozen):
    """A right and a wrong edit of one issue (DPO; SWE-Reasoner, equation 4)."""

    issue: str
    split: Split
    prompt: tuple[ChatMessage, ...]
    chosen: tuple[ChatMessage, ...]
    rejected: tuple[ChatMessage, ...]


def policy_row(issue: str, split: Split, reply: ReplyRow) -> PolicyRow:
    """A row of SFT: thinking and answer are wanted; the prompt has no earlier thinking."""
    asked = [ChatMessage(role=one.role, content=one.text) for one in reply.messages]
    thought = f"<think>\n{reply.thinking.strip()}\n</think>\n\n" if reply.thinking.strip() else ""
    return PolicyRow(
        issue=issue,
        split=split,
        stage=reply.stage,
        prompt=(ChatMessage(role="system", content=reply.system), *asked),
        completion=(ChatMessage(role="assistant", content=thought + reply.answer),),
    )


def process_rows(
    issue: SolvedIssue, split: Split, source: str, diff: str, *, files: bool, places: bool
) -> list[ProcessRow]:
    """The files and the places of an edit, each with whether they are right."""
    changed = list_places(diff)
    if not changed:
        return []
    paths = sorted(list_changed_files(diff))
    levels: list[tuple[AnswerLevel, bool]] = [("files", files), ("places", places)]
    found: list[ProcessRow] = []
    for level, right in levels:
        system, question = render_step(issue.issue, paths, changed if level == "places" else ())
        answer = JudgedAnswer(level=level, system=system, question=question, right=right)
        found.append(render_judged_row(issue.id, split, source, answer))
    return found


def render_judged_row(issue: str, split: Split, source: str, answer: JudgedAnswer) -> ProcessRow:
    """A question of a process reward model with the verdict that is wanted."""
    return ProcessRow(
        issue=issue,
        split=split,
        level=answer.level,
        source=source,
        prompt=(
            ChatMessage(role="system", content=answer.system),
            ChatMessage(role="user", content=answer.question),
        ),
        completion=_answer(GOOD if answer.right else BAD),
    )


def outcome_rows(
    issue: SolvedIssue, split: Split, right: Sequence[str], wrong: Sequence[str]
) -> list[OutcomeRow]:
    """Pairs of right and wrong edits: each right edit with the wrong one nearest in length.

    DPO's reward is a sum over tokens, so pairs of unlike lengths would teach length. Each edit
    is in one pair at most.
    """
    found: list[OutcomeRow] = []
    left = sorted(set(wrong))
    for chosen in sorted(set(right)):
        if not left:
            break
        rejected = min(left, key=lambda diff: (abs(len(diff) - len(chosen)), diff))
        left.remove(rejected)
        found.append(
            OutcomeRow(
                issue=issue.id,
                split=split,
                prompt=outcome_prompt(issue.issue),
                chosen=_answer(chosen),
                rejected=_answer(rejected),
            )
        )
    return found


def outcome_prompt(issue: Issue) -> tuple[ChatMessage, ...]:
    """What the implicit reward asks (`pipeline.selection.reward.ImplicitReward`)."""
    return (ChatMessage(role="user", content=render("orm/issue", issue=issue)),)


def _answer(text: str) -> tuple[ChatMessage, ...]:
    return (ChatMessage(role="assistant", content=text),)
