"""Options, errors and display that `fix` and `select` share; a signal ends them well."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Awaitable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, get_args

from bot.cli.display import CURRENT, Display, EventLines, PlainLines
from bot.cli.local_repository import NoRepository
from bot.cli.local_run import FAILED, USAGE, WrongUsage
from bot.errors import GitHubError, RepositoryEmpty, RepositoryGone
from bot.settings import SettingsError
from pipeline.codebase.git import CodebaseTooLarge, GitFailed
from pipeline.data.options import SelectionMethod
from pipeline.models.base import ModelError
from sandbox.errors import EnvironmentFailed, SandboxError

SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
"""What ends a program from outside; Ctrl-C does the same by itself."""


def run_interruptible(work: Coroutine[Any, Any, int]) -> int:
    """Run `work` and return its exit code; a signal cancels it, and 128 + the signal is returned.

    Raises:
        KeyboardInterrupt: Ctrl-C, after `work` was cancelled.
    """
    received: list[int] = []

    async def run() -> int:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(work)

        def stop(number: int) -> None:
            received.append(number)
            task.cancel()

        for each in SIGNALS:
            loop.add_signal_handler(each, stop, each)
        try:
            return await task
        except asyncio.CancelledError:
            if received:
                return 128 + received[0]
            raise
        finally:
            for each in SIGNALS:
                loop.remove_signal_handler(each)

    return asyncio.run(run())


@contextmanager
def open_display(*, json: bool = False, stages: bool = True) -> Generator[Display]:
    """Show progress on standard error until the block ends.

    `json`: one JSON object a line, unless a person watches. `stages`: list the stages of a run that
    fixes an issue.
    """
    display = _choose(json=json, stages=stages)
    token = CURRENT.set(display)
    try:
        yield display
    finally:
        CURRENT.reset(token)
        display.close()


def _choose(*, json: bool, stages: bool) -> Display:
    if not sys.stderr.isatty():
        return EventLines() if json else PlainLines()
    from bot.cli.live_display import LiveDisplay, open_console  # rich takes long to import

    console = open_console()
    if console.is_dumb_terminal or console.no_color:  # TERM=dumb, NO_COLOR
        return PlainLines()
    return LiveDisplay(console, stages=stages)


HOW_TO_INSTALL: Final = (
    "Say in .github/capuchin.yml how it is installed (`setup`, `python` or `dockerfile`), commit "
    "that, and run this with another --out."
)


def add_input_options(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add the options that name the repository and the issue."""
    parser.add_argument(
        "--repo", required=required, type=Path, metavar="DIR", help="a git repository"
    )
    parser.add_argument(
        "--issue", required=required, type=Path, metavar="FILE",
        help="a text file whose first line is the issue's title",
    )  # fmt: skip


def add_selection_options(parser: argparse.ArgumentParser) -> None:
    """Add the options on how to choose an edit and what to spend."""
    parser.add_argument(
        "--budget", type=float, metavar="DOLLARS", help="spending limit at list prices"
    )
    add_method_option(parser, "the method that chooses one of several edits")
    parser.add_argument(
        "--finalists",
        type=int,
        metavar="N",
        help="how many of the best edits a model chooses among (default: 3)",
    )
    parser.add_argument(
        "--confidence",
        type=float,
        metavar="P",
        help="the least probability of being correct, from 0 to 1",
    )


def add_method_option(parser: argparse.ArgumentParser, help_text: str) -> None:
    """Add `--selection`, which names a method."""
    parser.add_argument("--selection", choices=get_args(SelectionMethod), help=help_text)


def options_from_args(args: argparse.Namespace) -> dict[str, object]:
    """The pipeline's options that the command line sets; None for those it does not set."""
    return {
        "samples": getattr(args, "samples", None),
        "strategy": getattr(args, "strategy", None),
        "dollars": args.budget,
        "selection": args.selection,
        "finalists": args.finalists,
        "confidence": args.confidence,
        "all_revisions": getattr(args, "all_revisions", False) or None,
    }


async def run_and_report(work: Awaitable[int], args: argparse.Namespace, *, stages: bool) -> int:
    """Await `work` with a display and return its exit code; an error is shown as a sentence.

    With `args.json`, the display writes events; see `docs/guide.md`. `stages`: it lists the stages
    of a run that fixes an issue.
    """
    with open_display(json=args.json, stages=stages) as display:
        try:
            return await work
        except _REPORTED as error:
            code = USAGE if isinstance(error, _WRONG_USAGE) else FAILED
            display.end(code, {"outcome": "wrong usage" if code == USAGE else "failed"})
            for sentence in _explain_error(error, args):
                display.say(sentence)
            return code


_WRONG_USAGE: Final = (WrongUsage, NoRepository, SettingsError)
_FINAL: Final = (RepositoryGone, RepositoryEmpty, CodebaseTooLarge, EnvironmentFailed)
"""Another start with the same `--out` would end alike."""
_REPORTED: Final = (
    *_WRONG_USAGE, *_FINAL, ModelError, SandboxError, GitFailed, GitHubError, OSError,
)  # fmt: skip


def _explain_error(error: Exception, args: argparse.Namespace) -> Iterator[str]:
    match error:
        case WrongUsage() | NoRepository() | SettingsError():
            yield str(error)
        case RepositoryGone() | RepositoryEmpty():
            where = args.repo or args.url
            yield f"{where} no longer has the commit that the run started from: {error}."
        case CodebaseTooLarge():
            yield f"The repository is larger than any that Capuchin works on. {error}"
        case OSError():
            yield f"{error.filename or args.out}: {error.strerror or error}."
        case _:
            yield f"{type(error).__name__}: {error}"
    if isinstance(error, EnvironmentFailed):
        yield f"Failed command: {error.command}\n{error.log.rstrip()}"
        yield HOW_TO_INSTALL
    if args.out and not isinstance(error, (*_WRONG_USAGE, *_FINAL)):
        yield "Progress is saved: run it again with the same --out to continue."
