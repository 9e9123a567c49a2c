"""`capuchin serve`: the web server that receives GitHub's webhooks."""

import argparse
import asyncio
import logging
import signal
import socket
from contextlib import ExitStack

from bot.cli import Subparsers, add_env_option, parse_port, print_error
from bot.settings import Settings, find_trimmed_variables, find_unknown_variables
from bot.telemetry.log import configure_logging, watch_loop

logger = logging.getLogger(__name__)


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("serve")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=parse_port, default=8000, help="port (default: 8000)")
    add_env_option(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    settings = Settings.from_env()
    configure_logging(settings)
    return asyncio.run(_serve(settings, args.host, args.port))


async def _serve(settings: Settings, host: str, number: int) -> int:
    from bot.server.app import create_app
    from bot.server.connections import build_server

    for sentence in (*find_unknown_variables(), *find_trimmed_variables()):
        logger.warning("%s", sentence)
    server = build_server(create_app(settings), stop_seconds=10)
    # uvicorn stops gracefully, then raises the signal again.
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, lambda: None)
    with ExitStack() as stack:
        try:  # uvicorn itself would exit with a code that means something else
            found = socket.getaddrinfo(
                host, number, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            sockets = [
                stack.enter_context(socket.create_server(address[:2], family=family, backlog=2048))
                for family, address in dict.fromkeys((each[0], each[4]) for each in found)
            ]
        except OSError as error:
            return print_error(f"Cannot listen on {host}:{number}: {error.strerror}.")
        at = f"[{host}]" if ":" in host else host
        logger.info("Listening on http://%s:%s.", at, sockets[0].getsockname()[1])
        async with watch_loop():
            await server.serve(sockets=sockets)
    return 0
