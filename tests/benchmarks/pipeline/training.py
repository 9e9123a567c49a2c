"""Rows, tokens and padding of conversations against a row a reply; the memory of the trainer.

Needs `build/learn` (`make test-learn` makes it). `MOST`: the rows of 8,000 tokens whose memory is
measured.
"""

import asyncio
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from pipeline.lab.learning.interpreter import TrainingConfig
from pipeline.lab.learning.records import ReplyRow, write_rows
from pipeline.lab.learning.training_rows import PolicyRow, policy_rows
from pipeline.models.base import Message
from tests.benchmarks.table import Row
from tests.support.texts import texts_of

PYTHON = Path("build/learn/bin/python")
ROOT = Path(__file__).parents[3]
ROWS = 400
CONVERSATIONS = 2
SHAPES = {
    "explorer of 40 replies": (40, 4000, 250, 125),
    "editor of 8 replies": (8, 15_000, 500, 300),
}
"""By kind: replies, then words of the context, of a result and of a reply."""
TEXTS = texts_of(__file__)
_TOKENISE: str = TEXTS["_TOKENISE"]
_OPEN: str = TEXTS["_OPEN"]
_PADDING: str = TEXTS["_PADDING"]
_LISTS = """
import json, resource, sys
from datasets import Dataset
rows = [{"input_ids": list(range(1000, 9000)), "labels": list(range(1000, 9000))}
        for _ in range(int(sys.argv[1]))]
Dataset.from_list(rows)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000)
"""


async def measure() -> list[Row]:
    return await asyncio.to_thread(_measure, int(os.environ.get("MOST", "") or ROWS))  # noqa: TID251 - how make passes it on


def _measure(count: int) -> list[Row]:
    found: list[Row] = []
    usual: list[str] = []
    with tempfile.TemporaryDirectory(dir="build") as scratch:
        folder = Path(scratch)
        model = folder / "model"
        maker = ROOT / "tests/live/tiny_model.py"
        subprocess.run([PYTHON, maker, model], check=True)
        for name, shape in SHAPES.items():
            after, before = (
                _tokenise(folder / f"{name} {joined}", model, _list_rows(shape, joined=joined))
                for joined in (True, False)
            )
            (rows, tokens), (was_rows, was_tokens) = after[0], before[0]
            usual.append(str(tokens / rows))
            found += [
                Row(f"{name}: rows", rows, "rows", "a row a reply", was_rows),
                Row(f"{name}: tokens", tokens / 1e3, "thousand", "a row a reply", was_tokens / 1e3),
            ]
        rows = (_long_row(number) for number in range(count))
        _, (own, worker), (private, mapped) = _tokenise(folder / "long", model, rows, reads=True)
        shuffled, grouped = json.loads(_run([_PADDING, str(ROOT), *usual])[-1])
        held = float(_run([_LISTS, str(min(count, ROWS))])[-1])
    named = f"{count:,} rows of 8k tokens"
    against = f"lists of {min(count, ROWS):,}"
    return [
        *found,
        Row("padding of 800 such, two at once", 100 * grouped, "%", "by chance", 100 * shuffled),
        Row(f"memory to tokenise {named}", own, "MB", against, held),
        *([Row("memory of each of its workers", worker, "MB", against, held)] if worker else []),
        Row("memory of a trainer's process, own", private, "MB", against, held),
        Row("memory of it with the pages of the file", mapped, "MB", against, held),
    ]


def _list_rows(shape: tuple[int, int, int, int], *, joined: bool) -> Iterator[PolicyRow]:
    replies, context, result, answer = shape
    for number in range(CONVERSATIONS):
        messages = [Message(role="user", text=_write(context * (1 + number) // 2, number))]
        said: list[ReplyRow] = []
        for turn in range(replies):
            text = _write(answer, turn)
            said.append(
                ReplyRow(stage="edit", system="Mend it.", messages=tuple(messages), answer=text)
            )
            messages.append(Message(role="assistant", text=text))
            messages.append(Message(role="user", text=_write(result, number + turn)))
        groups = [said] if joined else [[one] for one in said]
        for group in groups:
            yield from policy_rows(str(number), "train", group)


def _long_row(number: int) -> PolicyRow:
    asked = Message(role="user", text=_write(4500, number))
    reply = ReplyRow(
        stage="edit", system="Mend it.", messages=(asked,), answer=_write(500, number),
    )  # fmt: skip
    return next(policy_rows(str(number), "train", [reply]))


def _write(words: int, number: int) -> str:
    """A text of the licence's words, for which the tiny model's tokenizer has tokens."""
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8").split()
    start = 37 * number % len(licence)
    return " ".join((licence[start:] + licence * (words // len(licence) + 1))[:words])


def _tokenise(
    out: Path, model: Path, rows: Iterator[PolicyRow], *, reads: bool = False
) -> list[Sequence[float]]:
    out.mkdir()
    write_rows(out / "rows.jsonl", rows)
    config = TrainingConfig.model_validate(
        {"kind": "policy", "rows": str((out / "rows.jsonl").resolve()), "digest": "0" * 64,
         "base": str(model.resolve()), "max_tokens": 10**6}
    )  # fmt: skip
    (out / "config.json").write_text(config.model_dump_json(), encoding="utf-8")
    memory = _run([_TOKENISE, str(ROOT), str(out)])[-1]
    told = _run([_OPEN, str(ROOT), str(out), *(["read"] if reads else [])])
    return [json.loads(told[0]), json.loads(memory), *map(json.loads, told[1:])]


def _run(words: Sequence[str]) -> list[str]:
    done = subprocess.run([PYTHON, "-c", *words], check=True, capture_output=True, text=True)
    return done.stdout.splitlines()
