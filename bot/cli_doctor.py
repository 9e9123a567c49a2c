"""`capuchin doctor`: is everything here that is needed, and does it work?"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import TypeVar

from bot.settings import Settings

Parser = TypeVar("Parser", bound=argparse.ArgumentParser)


def register(subparsers: argparse._SubParsersAction[Parser]) -> None:  # pyright: ignore[reportPrivateUsage] - argparse names its type so
    """Adds the command to `capuchin`."""
    parser = subparsers.add_parser("doctor", help="check what Capuchin needs, and say the mend")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from bot.doctor import examine

    checks = asyncio.run(examine(Settings.from_env()))
    works = all(check.works for check in checks)
    if args.json:
        document = {"works": works, "checks": [check.model_dump() for check in checks]}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        for check in checks:
            mark = "ok  " if check.works else "FAIL"
            mend = f" -> {check.mend}" if check.mend else ""
            sys.stdout.write(f"{mark} {check.name}: {check.found}{mend}\n")
    return 0 if works else 1
