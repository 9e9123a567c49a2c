"""Sequences that once came to a wrong end, cut down; and those in which GitHub is long away."""

from pathlib import Path
from typing import Any, Final

import yaml

from tests.e2e.sequences.plan import Act


def label(word: str = "", seconds: int = 1) -> Act:
    return Act("label", word=word, seconds=seconds)


def say(word: str, seconds: int = 1, issue: int = 0) -> Act:
    return Act("say", word=word, seconds=seconds, issue=issue)


TOLD: Final = Act("deliver", pick=-1)
"""The latest webhook arrives."""
LOST: Final = Act("lose", pick=-1)


def parse_acts(text: str) -> tuple[Act, ...]:
    return tuple(parse_act(one.split()) for one in text.split(","))


def parse_act(words: list[str]) -> Act:
    fields: dict[str, Any] = dict(word.split("=") for word in words if "=" in word)
    for name in fields.keys() - {"word"}:
        fields[name] = int(fields[name])
    return Act(" ".join(word for word in words if "=" not in word), **fields)


_TABLES = yaml.safe_load(Path(__file__).with_suffix(".yml").read_text(encoding="utf-8"))
FOUND, RIDDEN_OUT = (
    {name: parse_acts(acts) for name, acts in _TABLES[table].items()}
    for table in ("found", "ridden_out")
)
