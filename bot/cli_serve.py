"""`capuchin serve`: the web server that hears GitHub's webhooks."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
from typing import TypeVar

from bot.settings import Settings

Parser = TypeVar("Parser", bound=argparse.ArgumentParser)

STOP_SECONDS = 10


def register(subparsers: argparse._SubParsersAction[Parser]) -> None:  # pyright: ignore[reportPrivateUsage] - argparse names its type so
    """Adds the command to `capuchin`."""
    parser = subparsers.add_parser("serve", help="hear GitHub's webhooks")
    parser.add_argument("--host", help="address to listen on (default: CAPUCHIN_HOST or 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port (default: CAPUCHIN_PORT or 8000)")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    settings = Settings.from_env()
    host = args.host or settings.host
    port = settings.port if args.port is None else args.port
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(_serve(settings, host, port))
    return 0


async def _serve(settings: Settings, host: str, port: int) -> None:
    import uvicorn

    from bot.server import create_app

    config = uvicorn.Config(
        create_app(settings),
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    # uvicorn stops gracefully, then raises the signal again for whoever handled it before.
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, lambda: None)
    await uvicorn.Server(config).serve()
