"""`capuchin worker`: executes runs until it receives a signal."""

import argparse
import asyncio
import os
from contextlib import suppress
from pathlib import Path

from bot.cli import Subparsers, add_env_option
from bot.settings import Settings, SettingsError
from bot.telemetry.log import configure_logging, watch_loop
from bot.telemetry.tracing import tracing


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("worker")
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--poll",
        type=_parse_poll,
        default=0.0,
        metavar="SECONDS",
        help="poll GitHub for labels and comments at this interval (5 to 600), "
        "without webhooks and without `serve`",
    )
    group.add_argument(
        "--issue",
        metavar="URL",
        help="work on this labelled issue only, then exit. Exit codes: 0 done, 3 no fix, 1 failed, "
        "stopped or refused, 2 wrong usage",
    )
    parser.add_argument(
        "--metrics-port",
        type=int,
        metavar="N",
        help="show this worker's metrics to Prometheus at http://HOST:N/metrics",
    )
    add_env_option(parser)
    parser.set_defaults(run=_run)


def _parse_poll(text: str) -> float:
    """Raises ArgumentTypeError: not a number of seconds in the range."""
    if not text.isascii() or not text.isdigit() or not 5 <= int(text) <= 600:
        raise argparse.ArgumentTypeError(f"{text!r}: give 5 to 600 seconds")
    return float(text)


def _run(args: argparse.Namespace) -> int:
    settings = Settings.from_env()
    if not settings.github_app_id:
        raise SettingsError(
            "CAPUCHIN_GITHUB_APP_ID is not set. `capuchin setup` writes it to deploy/.env, which "
            "is read if it lies in this folder; else start with --env FILE."
        )
    settings.read_private_key()
    configure_logging(settings)
    if args.metrics_port is not None:
        from bot.telemetry.measurements import serve_metrics

        try:
            serve_metrics(args.metrics_port, settings.data_dir)
        except (OSError, OverflowError) as error:
            raise SettingsError(f"--metrics-port {args.metrics_port}: {error}") from None
    with tracing(settings):
        if args.issue:
            from bot.cli.one_issue import run_command

            return asyncio.run(run_command(settings, args.issue))
        give_way()
        asyncio.run(_run_worker(settings, args.poll))
    return 0


def give_way() -> None:
    """Let a server on the same machine answer GitHub first.

    If Linux schedules each session as a group, niceness counts only within it, and the group has a
    niceness of its own (sched(7), "The autogroup feature"), which the session's leader may set.
    """
    os.nice(5)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):
            Path("/proc/self/autogroup").write_text("5")


async def _run_worker(settings: Settings, poll: float) -> None:
    # Imported here: it takes seconds and 150 MB, which no other command needs.
    from bot.bootstrap import build_worker

    async with watch_loop(), build_worker(settings, poll=poll) as worker:
        await worker.run_until_signalled()
