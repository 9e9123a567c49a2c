"""Options and error reports that `capuchin fix` and `capuchin select` share."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Final, get_args

from bot.cli.display.open import open_display
from bot.cli.local_repository import NoRepository
from bot.cli.local_run import FAILED, USAGE, WrongUsage
from bot.errors import RepositoryEmpty, RepositoryGone
from bot.github.errors import GitHubError
from bot.settings import SettingsError
from pipeline.codebase.git import CodebaseTooLarge, GitFailed
from pipeline.models.base import ModelError
from pipeline.options import SelectionMethod
from sandbox.errors import EnvironmentFailed, SandboxError

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
