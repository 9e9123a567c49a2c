"""`capuchin` in the tests' own process: how it ended, and what it said."""

import json
from collections.abc import Awaitable
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from bot.cli import main
from bot.cli.local_run import USAGE


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on standard output."""
        return json.loads(self.out)


def here(*words: str, cwd: Path = Path()) -> Ended:
    """`capuchin` with these words, in this process and with its environment."""
    with chdir(cwd), redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        try:
            code = main(words)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else -1
    return Ended(code, out.getvalue(), err.getvalue())


def done(*words: str) -> Ended:
    """As `here`, of what ends well."""
    ended = here(*words)
    assert ended.code == 0, ended.err
    return ended


def refused(*words: str) -> str:
    """What is said of words that are wrong usage."""
    ended = here(*words)
    assert ended.code == USAGE, ended.err
    return ended.err


async def ended_with(code: int, command: Awaitable[int]) -> Ended:
    """What was said until `command` ended with `code`."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        found = await command
    assert found == code, err.getvalue()
    return Ended(code, out.getvalue(), err.getvalue())
