"""`capuchin setup`: creates the GitHub App and saves its keys."""

import argparse
import asyncio
import os
import re
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr

from bot.cli import FAILED, Subparsers, parse_port, print_error
from bot.errors import BotError
from bot.settings import Settings, SettingsError, variable_name
from sandbox.frozen import replace


class EnvFileError(BotError):
    """The keys cannot be saved there; `str(error)` is a sentence."""


def check_writable(file: Path) -> None:
    """Check that the file can receive an App's keys, before GitHub creates the App.

    Raises:
        EnvFileError: the file already names an App, is not a text file, or is not writable.
    """
    app_id = r"(?m)^[ \t]*(?:export[ \t]+)?CAPUCHIN_GITHUB_APP_ID\s*=\s*\S"
    try:
        if file.exists() and re.search(app_id, file.read_text(encoding="utf-8")):
            raise EnvFileError(
                f"{file} already names an App. Remove it there, or give another --env FILE."
            )
        file.parent.mkdir(exist_ok=True)  # no more of what may be a typing mistake
        is_new = not file.exists()
        os.close(_open_private(file))
        if is_new:  # the commands would read it as one that `setup` has written
            file.unlink()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise EnvFileError(f"Cannot write {file}: {reason}.") from None


def append_values(file: Path, values: Mapping[str, str]) -> None:
    """Append `NAME='value'` lines; line breaks become `\\n`, as `Settings` reads a key.

    Raises:
        EnvFileError: the file is not writable, or a value does not fit into such a line.
    """
    lines = ["", "# Written by `capuchin setup`. Anybody who can read this can act as the App."]
    for name, value in values.items():
        text = value.strip().replace("\n", "\\n")
        if "'" in text or not text.isprintable():
            raise EnvFileError(f"GitHub sent a value for {name} that cannot be written to a file.")
        lines.append(f"{name}='{text}'")
    try:
        with os.fdopen(_open_private(file), "a", encoding="utf-8") as stream:
            stream.write("\n".join(lines) + "\n")
    except OSError as error:
        raise EnvFileError(f"Cannot write {file}: {error.strerror}.") from None


def _open_private(file: Path) -> int:
    """Open for appending, readable only by its owner."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("setup")
    parser.add_argument(
        "--public-url",
        help="the address at which GitHub can reach `serve` (default: CAPUCHIN_PUBLIC_URL)",
    )
    parser.add_argument(
        "--github-url", help="a GitHub Enterprise Server (default: CAPUCHIN_GITHUB_URL)"
    )
    parser.add_argument(
        "--org", default="", help="create the App for this organisation instead of yourself"
    )
    parser.add_argument(
        "--env",
        type=Path,
        metavar="FILE",
        default=Path("deploy/.env"),
        help="where to save its keys (default: deploy/.env)",
    )
    parser.add_argument(
        "--port", type=parse_port, default=0, help="port of the local page (0: a free one)"
    )
    parser.add_argument(
        "--no-webhook",
        action="store_true",
        help="do without a public address: `capuchin worker --poll 30` polls GitHub instead",
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the address to open")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    settings = Settings.from_env()
    if args.no_webhook and args.public_url:
        raise SettingsError("Give --no-webhook or --public-url, not both.")
    public_url = ""
    if not args.no_webhook:
        public_url = _parse_address("--public-url", args.public_url or settings.public_url)
    github_url = _parse_address("--github-url", args.github_url or settings.github_url)
    if not args.org and sys.stdin.isatty():
        args.org = _ask_for_organisation()
    if args.org and not re.fullmatch(r"[A-Za-z0-9-]{1,39}", args.org):
        raise SettingsError(f"--org: {args.org!r} is not a valid organisation name.")
    settings = replace(settings, public_url=public_url, github_url=github_url)

    try:
        return asyncio.run(_set_up(settings, args))
    except EnvFileError as error:
        return print_error(str(error))
    except OSError as error:
        return print_error(f"Cannot open the local page: {error.strerror}.")


def _ask_for_organisation() -> str:
    """The organisation that is to own the App; empty for the person who asks.

    An App that is not public can be installed on its owner's account alone:
    https://docs.github.com/apps/creating-github-apps (making a GitHub App public or private)
    """
    sys.stderr.write(
        "The App can be installed only on the account that owns it.\n"
        "Name the organisation whose repositories it is for, or press Enter for your own:\n"
    )
    sys.stderr.flush()
    return sys.stdin.readline().strip()


async def _set_up(settings: Settings, args: argparse.Namespace) -> int:
    from bot.cli.doctor import render_checks
    from bot.cli.doctor_checks import run_checks
    from bot.cli.setup_browser import RegistrationFlow
    from bot.errors import GitHubError
    from bot.github.credentials import AppRegistration, build_manifest, exchange_code

    check_writable(args.env)
    flow = RegistrationFlow(
        settings.github_url,
        args.org,
        lambda back: build_manifest(
            public_url=settings.public_url, redirect_url=back, webhook=not args.no_webhook
        ),
    )
    async with flow.open(args.port):
        sys.stderr.write(f"Open {flow.url} in a browser on this machine.\n")
        if args.no_browser:
            port = urlsplit(flow.url).port
            sys.stderr.write(f"From your own: first run ssh -L {port}:127.0.0.1:{port} SERVER.\n")
        owner = f"the organisation {args.org}" if args.org else "you (--org NAME: an organisation)"
        sys.stderr.write(f"It will belong to {owner}, and can be installed nowhere else.\n")
        if not args.no_browser:
            await asyncio.to_thread(webbrowser.open, flow.url)
        code = await flow.wait_for_code()
        try:
            app: AppRegistration = await exchange_code(settings.github_url, code)
        except GitHubError as error:
            return print_error(f"GitHub did not send the App's keys ({error}). Please start again.")
        except ValueError:
            return print_error("GitHub sent an App without its keys. Please start again.")
    if not (app.webhook_secret or args.no_webhook):
        return print_error("GitHub sent an App without a webhook secret. Please start again.")
    settings = replace(
        settings,
        github_app_id=str(app.id),
        github_private_key=SecretStr(app.pem),
        webhook_secret=SecretStr(app.webhook_secret or ""),
        app_name=app.slug,
    )
    keys = {
        "github_url": settings.github_url,
        "github_app_id": settings.github_app_id,
        "github_private_key": settings.github_private_key.get_secret_value(),
        "webhook_secret": settings.webhook_secret.get_secret_value(),
        "app_name": settings.app_name,
        "public_url": settings.public_url,
    }
    append_values(args.env, {variable_name(field): value for field, value in keys.items()})
    first = "worker --poll 30" if args.no_webhook else "serve"
    sys.stderr.write(
        f"Created the App {app.html_url}; its keys are in {args.env}.\n"
        f"Install it on your repositories: {app.html_url}/installations/new\n"
        f"Then start: capuchin {first} --env {args.env}\n"
        + ("" if args.no_webhook else f"and any number of: capuchin worker --env {args.env}\n")
    )
    checks = await run_checks(settings, serving=False)
    sys.stdout.write(render_checks(checks))
    return 0 if all(check.works for check in checks) else FAILED


def _parse_address(name: str, value: str) -> str:
    try:
        parts = urlsplit(value)
        is_valid = parts.port != 0 and parts.hostname and "@" not in parts.netloc
    except ValueError:  # the port is not a number
        parts, is_valid = urlsplit(""), False
    if not is_valid or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        raise SettingsError(f"{name}: give an address such as https://capuchin.example.com.")
    return value.rstrip("/")
