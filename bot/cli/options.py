"""Options that `capuchin fix` and `capuchin select` share, and how both end when they fail."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable
from pathlib import Path
from typing import get_args

from bot.cli.local_run import FAILED, USAGE, WrongUsage, print_progress
from bot.errors import RepositoryEmpty, RepositoryGone
from bot.github.errors import GitHubError
from bot.settings import SettingsError
from pipeline.codebase.git import GitFailed
from pipeline.models.base import ModelError
from pipeline.options import SelectionMethod
from sandbox.errors import EnvironmentFailed, SandboxError


def add_input_options(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """What is to be worked on."""
    parser.add_argument(
        "--repo", required=required, type=Path, metavar="DIR", help="a git repository"
    )
    parser.add_argument(
        "--issue", required=required, type=Path, metavar="FILE",
        help="text: the first line is the title",
    )  # fmt: skip


def add_selection_options(parser: argparse.ArgumentParser) -> None:
    """How one edit is chosen, and what that may cost."""
    parser.add_argument("--budget", type=float, metavar="DOLLARS", help="ceiling at list prices")
    add_method_option(parser, "how one edit is chosen of several")
    parser.add_argument(
        "--confidence", type=float, metavar="P", help="least probability of being right, 0 to 1"
    )


def add_method_option(parser: argparse.ArgumentParser, help_text: str) -> None:
    """`--selection`, one of the ways."""
    parser.add_argument("--selection", choices=get_args(SelectionMethod), help=help_text)


def options_from_args(args: argparse.Namespace) -> dict[str, object]:
    """What the command line says of the pipeline's options, None where it says nothing."""
    return {
        "samples": getattr(args, "samples", None),
        "dollars": args.budget,
        "selection": args.selection,
        "confidence": args.confidence,
        "all_revisions": getattr(args, "all_revisions", False) or None,
    }


async def run_and_report(work: Awaitable[int], args: argparse.Namespace) -> int:
    """The exit code of `work`; what goes wrong is a sentence on standard error."""
    try:
        return await work
    except (WrongUsage, SettingsError) as error:
        print_progress(str(error))
        return USAGE
    except (RepositoryGone, RepositoryEmpty) as error:
        print_progress(
            f"{args.repo or args.url} no longer has the commit that the run began from: {error}."
        )
        return FAILED
    except (ModelError, SandboxError, GitFailed, GitHubError) as error:
        print_progress(f"{type(error).__name__}: {error}")
        if isinstance(error, EnvironmentFailed):
            print_progress(f"The command was: {error.command}\n{error.log.rstrip()}")
    except OSError as error:
        print_progress(f"{error.filename or args.out}: {error.strerror or error}.")
    if args.out:
        print_progress("What was done is kept: start again with the same --out to go on.")
    return FAILED
