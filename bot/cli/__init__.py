"""The command line. Each command is a module with `register(subparsers)`, imported on use.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no fix, 4 out of budget or time, 130
interrupted.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from dotenv import load_dotenv


class CliCommand(NamedTuple):
    module: str
    summary: str


COMMANDS: Final[Mapping[str, CliCommand]] = {
    "demo": CliCommand(
        "capuchin_demo.run_demo", "fix a real bug of a real package on this machine"
    ),
    "serve": CliCommand("bot.cli.serve", "receive GitHub's webhooks and serve the dashboard"),
    "worker": CliCommand("bot.cli.worker", "execute the runs that webhooks request"),
    "fix": CliCommand("bot.cli.fix", "fix an issue and write the result to files"),
    "select": CliCommand("bot.cli.select", "choose the best of several edits from anywhere"),
    "replay": CliCommand("bot.cli.replay", "repeat the votes and the selection of a run"),
    "evaluate": CliCommand("bot.cli.lab.evaluate", "score the methods that choose among edits"),
    "learn": CliCommand("bot.cli.lab.learn", "train models on solved issues"),
    "prices": CliCommand("bot.cli.prices", "show the price of each configured model"),
    "config": CliCommand("bot.cli.config", "check, show or describe a repository's settings file"),
    "setup": CliCommand("bot.cli.setup", "create the GitHub App in the browser"),
    "doctor": CliCommand("bot.cli.doctor", "check the requirements and suggest corrections"),
}
"""In the order of `capuchin --help`, which imports none of the modules."""

_ON_LINUX: Final = frozenset({"demo", "fix", "select", "worker"})
"""The commands that handle code on this machine."""

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # pyright: ignore[reportPrivateUsage] - argparse names its type so

FIXED, FAILED, USAGE, NO_FIX, OUT_OF_BUDGET = range(5)
"""The exit codes; every other success ends with `FIXED`, too."""
_EXTRAS: Final = {
    "capuchin_demo": ("demo", FAILED), "matplotlib": ("lab", USAGE), "polars": ("lab", USAGE)
}  # fmt: skip
"""By package: the extra that brings it, and the exit code without it."""
INTERRUPTED = 130
"""After Ctrl-C: 128 + SIGINT, as shells have it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; print an error as one sentence on stderr.

    `register` sets a command's `run(args) -> int` as the parser's default.

    Raises:
        SystemExit: from argparse, on wrong usage (2) or after printing help (0).
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if line := os.getenv("COMP_LINE"):  # noqa: TID251 - a shell asks how its line goes on
        import argcomplete

        _, command, *_ = (*line.split(), "", "")
        argcomplete.autocomplete(_build_parser(command))
    try:
        args = _build_parser(words[0] if words else "").parse_args(words)
        return _run(args, words[0])
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise
        extra, code = _EXTRAS[error.name]
        install = f"pip install 'capuchin-bot[{extra}]'"
        return print_error(f"This needs {error.name}, which is not installed: {install}", code)


def _run(args: argparse.Namespace, command: str) -> int:
    # pydantic takes longer to import than --help may
    from bot.cli.surroundings import explain_unfit_system
    from bot.settings import SettingsError, name_socks_proxies

    try:
        read_env_file(getattr(args, "env_file", None))
        name_socks_proxies()
        if command in _ON_LINUX and (sentence := explain_unfit_system()):
            return print_error(sentence, FAILED)
        code = int(args.run(args))
        sys.stdout.flush()
    except SettingsError as error:
        file = getattr(args, "env_file", None)
        read = f" {file} was read." if file else ""
        return print_error(f"{error}{read}", USAGE)
    except BrokenPipeError:  # as when piping into `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        out = getattr(args, "out", None)
        again = " Progress is saved: run it again with the same --out to continue." if out else ""
        return print_error(f"Interrupted.{again}", INTERRUPTED)
    return code


_SETUP_FILE = Path("deploy/.env")


def add_env_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--env", dest="env_file", type=Path, metavar="FILE",
        default=_SETUP_FILE if _SETUP_FILE.is_file() else None,
        help="a file of variables, as `capuchin setup` writes it; those of the environment win "
        f"(default: {_SETUP_FILE}, where it exists)",
    )  # fmt: skip


def read_env_file(file: Path | None) -> None:
    """Set the environment variables of `file` that are not set.

    Raises:
        SettingsError: the file cannot be read.
    """
    if file is None:
        return
    from bot.settings import SettingsError

    try:
        with file.open(encoding="utf-8") as stream:
            load_dotenv(stream=stream, interpolate=False)
    except OSError as error:
        raise SettingsError(f"Cannot read {file}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{file} is not a text file in UTF-8.") from None


def parse_port(text: str) -> int:
    """Parse a port, for `argparse`.

    Raises:
        ArgumentTypeError: `text` is not a port.
    """
    if not text.isascii() or not text.isdigit() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: expected 0 to 65535")
    return int(text)


def _build_parser(command: str) -> argparse.ArgumentParser:
    """Register only `command`, so that the server never imports what a worker needs.

    Without one, as for `--help`, every command is listed and no module imported.
    """
    parser = argparse.ArgumentParser(
        prog="capuchin", description="Fixes GitHub issues and shows the evidence."
    )
    parser.add_argument(
        "--version", action="version", version=f"capuchin {version('capuchin-bot')}"
    )
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    if command in COMMANDS:
        import_module(COMMANDS[command].module).register(subparsers)
    else:
        for name, listed in COMMANDS.items():
            subparsers.add_parser(name, help=listed.summary)
    return parser


def print_error(text: str, code: int = FAILED) -> int:
    sys.stderr.write(f"capuchin: {text}\n")
    return code
