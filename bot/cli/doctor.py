"""`capuchin doctor`: checks that everything Capuchin needs is there and works."""

import argparse
import asyncio
import itertools
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from bot.cli import Subparsers, add_env_option
from bot.safe_text import printable
from bot.settings import Settings

if TYPE_CHECKING:
    from bot.cli.doctor_services import HealthCheck


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("doctor")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--clean",
        action="store_true",
        help="first remove leftovers: containers of dead runs, images, temporary folders",
    )
    add_env_option(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from bot.cli.doctor_checks import run_checks

    settings = Settings.from_env()
    if args.clean and not asyncio.run(_clean(settings)):
        return 1
    checks = asyncio.run(run_checks(settings))
    works = all(check.works for check in checks)
    if args.json:
        document = {"works": works, "checks": [check.model_dump() for check in checks]}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        sys.stdout.write(render_checks(checks))
    return 0 if works else 1


_FOR_BOT: Final = frozenset(
    ["Redis", "workers", "webhook secret", "GitHub App", "permissions", "webhooks", "fetching",
       "clock", "public address", "archive"]
)  # fmt: skip
"""The checks of what `capuchin fix` with a local repository does without."""


def render_checks(checks: "Sequence[HealthCheck]") -> str:
    """One line for each check, with what to do: first what `capuchin fix` needs."""
    groups = {
        "Needed by `capuchin fix` and the bot:": [c for c in checks if c.name not in _FOR_BOT],
        "Needed by the bot alone:": [c for c in checks if c.name in _FOR_BOT],
    }
    lines = [[f"{title}\n", *map(_render_check, group)] for title, group in groups.items() if group]
    return printable("".join(itertools.chain(*lines)))


def _render_check(check: "HealthCheck") -> str:
    mark = "skip" if check.skipped else "ok  " if check.works else "FAIL"
    return f"{mark} {check.name}: {check.found}{f' -> {check.mend}' if check.mend else ''}\n"


async def _clean(settings: Settings) -> bool:
    """Whether it succeeded."""
    from bot.cli.doctor_checks import clean
    from bot.storage.client import UNREACHABLE
    from sandbox.errors import SandboxUnavailable

    try:
        sys.stderr.write(await clean(settings) + "\n")
    except (*UNREACHABLE, SandboxUnavailable) as error:
        sys.stderr.write(f"Nothing was cleaned: {error}\n")
        return False
    return True
