"""Options and error reports that `capuchin fix` and `capuchin select` share."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable
from pathlib import Path
from typing import get_args

from bot.cli.local_run import FAILED, USAGE, WrongUsage, print_progress
from bot.cli.terminal import silence_retries
from bot.errors import RepositoryEmpty, RepositoryGone
from bot.github.errors import GitHubError
from bot.settings import SettingsError
from pipeline.codebase.git import GitFailed
from pipeline.models.base import ModelError
from pipeline.options import SelectionMethod
from sandbox.errors import EnvironmentFailed, SandboxError


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
        "dollars": args.budget,
        "selection": args.selection,
        "confidence": args.confidence,
        "all_revisions": getattr(args, "all_revisions", False) or None,
    }


async def run_and_report(work: Awaitable[int], args: argparse.Namespace) -> int:
    """Await `work` and return its exit code; print an error as a sentence on standard error."""
    silence_retries()
    try:
        return await work
    except (WrongUsage, SettingsError) as error:
        print_progress(str(error))
        return USAGE
    except (RepositoryGone, RepositoryEmpty) as error:
        print_progress(
            f"{args.repo or args.url} no longer has the commit that the run started from: {error}."
        )
        return FAILED
    except (ModelError, SandboxError, GitFailed, GitHubError) as error:
        print_progress(f"{type(error).__name__}: {error}")
        if isinstance(error, EnvironmentFailed):
            print_progress(f"Failed command: {error.command}\n{error.log.rstrip()}")
    except OSError as error:
        print_progress(f"{error.filename or args.out}: {error.strerror or error}.")
    if args.out:
        print_progress("Progress is saved: run it again with the same --out to continue.")
    return FAILED
