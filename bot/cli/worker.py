"""`capuchin worker`: executes runs until it receives a signal."""

from __future__ import annotations

import argparse
import asyncio

from bot.cli import Subparsers
from bot.logs import configure_logging
from bot.settings import Settings, SettingsError


def register(subparsers: Subparsers) -> None:
    """Add the command to `capuchin`."""
    parser = subparsers.add_parser("worker")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    del args
    settings = Settings.from_env()
    if not settings.github_app_id:
        raise SettingsError("CAPUCHIN_GITHUB_APP_ID is not set.")
    settings.read_private_key()
    configure_logging(settings)
    asyncio.run(_run_worker(settings))
    return 0


async def _run_worker(settings: Settings) -> None:
    # Imported here: it costs seconds and 150 MB that no other command needs.
    from bot.bootstrap import build_worker

    async with build_worker(settings) as worker:
        await worker.run_until_signalled()
