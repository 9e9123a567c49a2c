"""A run of ten samples whose worker dies at any checkpoint: little is repeated, nothing is lost."""

import re
from collections import Counter
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from pipeline.data.types import Selection
from tests.support.data.solver_shop import (
    ABSOLUTE_EDIT,
    APPROVE,
    COMMON,
    GOOD_EDIT,
    ISSUE,
    LONGER_GOOD_EDIT,
    SHARP_SCRIPT,
    WEAK_SCRIPT,
    WRONG_EDIT,
    Shop,
    edit,
    sample,
)
from tests.support.fakes import Answer, ScriptedModel

M = TypeVar("M", bound=BaseModel)

FIRST: list[Answer] = [ABSOLUTE_EDIT, GOOD_EDIT, WRONG_EDIT, LONGER_GOOD_EDIT, GOOD_EDIT]
SECOND: list[Answer] = [WRONG_EDIT, edit("    result = 0", "    result = 6"), GOOD_EDIT, GOOD_EDIT]
EDITS = [*FIRST, *SECOND, edit("    result = 0", "    result = 9")]
OPTIONS: dict[str, Any] = {"samples": 10, "adaptive": False, "nearby_seconds": 0}
MOST_AT_ONCE = 10
"""Conversations: one call of each may be in flight when the worker dies."""


def answers() -> dict[str, list[Answer]]:
    said: dict[str, list[Answer]] = {**COMMON, "approaches": ["<approaches>\nAdd.\n</approaches>"]}
    for number, answer in enumerate(EDITS):
        test = WEAK_SCRIPT if number % 4 == 1 else None
        said |= sample(number, answer, APPROVE, **({"test": test} if test else {}))
    said["editing/4"] = ["Only words.", GOOD_EDIT, APPROVE]
    return {**said, "selecting": [SHARP_SCRIPT, "<choice>1</choice>"]}


class Memory:
    """A store in memory that remembers how it looked, and what had been asked, at each save."""

    def __init__(self, documents: dict[str, str], model: ScriptedModel | None = None) -> None:
        self.documents = dict(documents)
        self.moments: list[tuple[str, dict[str, str], list[tuple[str, int]]]] = []
        self._model = model

    async def load(self, key: str, kind: type[M]) -> M | None:
        text = self.documents.get(key)
        return None if text is None else kind.model_validate_json(text)

    async def save(self, key: str, value: BaseModel) -> None:
        if self._model is not None:
            self.moments.append((key, dict(self.documents), list(self._model.asked)))
        self.documents[key] = value.model_dump_json()


def choose_moments(store: Memory) -> list[tuple[str, dict[str, str], list[tuple[str, int]]]]:
    """Of each kind of checkpoint the first, the one in the middle and the last."""
    kinds: dict[str, list[tuple[str, dict[str, str], list[tuple[str, int]]]]] = {}
    for moment in store.moments:
        kinds.setdefault(re.sub(r"\d+|\b[0-9a-f]{8,}\b", "#", moment[0]), []).append(moment)
    return [of[at] for of in kinds.values() for at in sorted({0, len(of) // 2, len(of) - 1})]


async def test_killed_at_any_checkpoint_each_call_is_asked_at_most_once_more(
    shop: Shop, tmp_path: Path
) -> None:
    calm = ScriptedModel(answers())
    store = Memory({}, calm)
    expected = await shop.solver(calm, store=store, **OPTIONS).solve(ISSUE)
    assert isinstance(expected, Selection)
    assert len(expected.evidence.votes.candidates) == 10
    assert len(store.moments) > 80
    once = Counter(calm.asked)
    for key, documents, asked in choose_moments(store):
        model = ScriptedModel(answers())
        kept = Memory(documents)
        assert await shop.solver(model, store=kept, **OPTIONS).solve(ISSUE) == expected, key
        both = Counter(asked) + Counter(model.asked)
        assert both.keys() == once.keys(), key
        repeated = both - once
        assert repeated.total() <= MOST_AT_ONCE, key
        each = 8 if key.startswith("context/relevance/") else 1
        assert all(times <= each for times in repeated.values()), (key, repeated)
