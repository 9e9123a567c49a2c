"""Memory of `capuchin learn filter`, against holding all attempts in a list."""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pipeline.lab.learning.records import Attempt, LearningData, ReplyRow, SolvedIssue, open_data
from pipeline.models.base import Message
from tests.benchmarks.table import Row
from tests.support.data.diffs import diff_of

ROWS = 60_000
ATTEMPTS, REPLIES = 10, 6
"""Of each issue, and of each attempt: every reply becomes a row."""
_FILTER = """
import resource, sys
from bot.cli import main
from pipeline.lab.learning.records import index_attempts, read_group
from pathlib import Path
data = Path(sys.argv[1])
held = [list(read_group(data, at)) for at in index_attempts(data).values()] if sys.argv[3] else ()
ended = main(["learn", "filter", str(data), "--out", sys.argv[2]])
print(ended, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


async def measure() -> list[Row]:
    rows = int(os.environ.get("MOST", "") or ROWS)  # noqa: TID251 - how make passes it on
    return await asyncio.to_thread(_measure, rows)


def _measure(rows: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        _write(folder / "data", rows)
        streamed = _filter(folder, "")
        held = _filter(folder, "held")
    name = f"memory of learn filter, {rows:,} rows"
    return [Row(name, streamed, "MB", "all attempts in a list", held)]


def _write(folder: Path, rows: int) -> None:
    with open_data(folder) as data:
        for number in range(rows // (ATTEMPTS * REPLIES)):
            issue = _build_issue(number)
            data.add(LearningData((issue,), tuple(_list_attempts(issue, number))))


def _build_issue(number: int) -> SolvedIssue:
    repository = f"owner/repository{number % 300}"
    return SolvedIssue(
        id=f"owner__repository{number % 300}-{number}",
        repository=repository,
        title=f"Wrong total {number}",
        body=f"The total of {number * 31} items and of {number * 17} others is wrong.",
        closed=f"20{10 + number % 16}-{1 + number % 12:02}-01T00:00:00Z",
        reference=_edit(number, 0),
        source="pulls",
    )


def _edit(number: int, sample: int) -> str:
    after = "".join(f"item {number} adds {sample} and {line}\n" for line in range(8))
    return diff_of(f"item {number} subtracts\n", after, "shop/till.py")


def _list_attempts(issue: SolvedIssue, number: int) -> Iterator[Attempt]:
    for sample in range(ATTEMPTS):
        replies = tuple(
            ReplyRow(
                stage="edit", system="Mend it.", answer=f"{number} {sample} {reply}\n" * 10,
                messages=(Message(role="user", text=f"{issue.body} {sample} {reply}\n" * 40),),
            )
            for reply in range(REPLIES)
        )  # fmt: skip
        yield Attempt(
            issue=issue.id, source=f"sample {sample}", diff=_edit(number, sample), resolved=True,
            shown=("shop/till.py",), replies=replies, script="x", red_before=True,
            green_on_reference=True,
        )  # fmt: skip


def _filter(folder: Path, held: str) -> float:
    """The most memory that the command used, in MB."""
    words = [sys.executable, "-c", _FILTER, str(folder / "data"), str(folder / "rows"), held]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    ended, kilobytes = done.stdout.split("\n")[-2].split()
    assert ended == "0", done.stderr
    return int(kilobytes) / 1000
