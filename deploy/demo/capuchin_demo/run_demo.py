"""`capuchin demo [--keep] [--port N]`: from the signed webhook to the pull request."""

import argparse
import logging
import time

from bot.cli import FAILED, Subparsers, parse_port
from bot.cli.display import print_progress
from bot.cli.local_run import run_interruptible
from bot.runner.sandbox import build_engine
from bot.settings import Settings
from capuchin_demo.package import DemoFailed, fetch_release, unpack
from sandbox.errors import SandboxError


def register(subparsers: Subparsers) -> None:
    """Add the command to `capuchin`."""
    parser = subparsers.add_parser(
        "demo",
        description="Shows everything from the signed webhook to the pull request on a local "
        "GitHub. Uses recorded answers unless ANTHROPIC_API_KEY is set, and says which.",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep running afterwards, for a browser"
    )
    parser.add_argument("--port", type=parse_port, default=0, help="port of the local GitHub")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    # Whatever ends a run is reported on its issue; warnings would only distract.
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    return run_interruptible(_run_demo(args.keep, args.port))


async def _run_demo(keep: bool, number: int) -> int:
    began = time.monotonic()
    settings = Settings.from_env()
    print_progress(
        "This demo fixes a real bug of a real package, here on this machine: it starts a local "
        "GitHub, Redis, Capuchin's server and a worker; opens an issue and labels it; writes edits "
        "and tests, runs them in sealed containers, chooses one edit and opens a pull request. "
        "Ctrl-C ends it and removes what it started.\n"
    )
    try:
        await build_engine(settings).check()
        package = unpack(fetch_release(settings.data_dir / "cache"))
        from capuchin_demo.show import show_demo  # takes seconds: first say what is missing

        return await show_demo(settings, package, number, keep=keep, began=began)
    except (DemoFailed, SandboxError) as error:
        print_progress(str(error))
        return FAILED
    except OSError as error:
        print_progress(f"The demo could not start: {error.strerror or 'the port is taken'}.")
        return FAILED
