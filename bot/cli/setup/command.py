"""`capuchin setup`: creates the GitHub App in the browser, keeps its keys, and examines it all."""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import webbrowser
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr

from bot.cli import Commands, port
from bot.cli.setup.manifest import LONGEST_NAME
from bot.settings import Settings, SettingsError, variable

FAILED = 1


def register(subparsers: Commands) -> None:
    """Adds the command to `capuchin`."""
    parser = subparsers.add_parser("setup", help="create the GitHub App, in the browser")
    parser.add_argument(
        "--public-url", help="where `serve` is reached from GitHub (default: CAPUCHIN_PUBLIC_URL)"
    )
    parser.add_argument("--github-url", help="an Enterprise Server (default: CAPUCHIN_GITHUB_URL)")
    parser.add_argument("--org", default="", help="create it for an organisation, not for yourself")
    parser.add_argument("--name", default="", help="the App's name (default: that of app.yml)")
    parser.add_argument(
        "--env",
        type=Path,
        metavar="FILE",
        default=Path("deploy/.env"),
        help="where its keys are kept (default: deploy/.env)",
    )
    parser.add_argument("--port", type=port, default=0, help="of the local page; 0: a free one")
    parser.add_argument("--no-browser", action="store_true", help="print the address to open only")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    settings = Settings.from_env()
    public_url = _address("--public-url", args.public_url or settings.public_url)
    github_url = _address("--github-url", args.github_url or settings.github_url)
    if args.org and not re.fullmatch(r"[A-Za-z0-9-]{1,39}", args.org):
        raise SettingsError(f"--org: {args.org!r} is no organisation's name.")
    if len(args.name) > LONGEST_NAME:
        raise SettingsError(f"--name: GitHub takes {LONGEST_NAME} characters at most.")
    settings = settings.model_copy(update={"public_url": public_url, "github_url": github_url})
    from bot.cli.setup.env_file import NotKept

    try:
        return asyncio.run(_set_up(settings, args))
    except NotKept as error:
        return _say(str(error))
    except OSError as error:
        return _say(f"The local page cannot be opened: {error.strerror}.")


async def _set_up(settings: Settings, args: argparse.Namespace) -> int:
    from bot.cli.setup.browser import Journey
    from bot.cli.setup.env_file import check_place, keep
    from bot.cli.setup.manifest import manifest
    from bot.github.errors import GitHubError
    from bot.github.registration import Registered, convert

    check_place(args.env)
    journey = Journey(
        settings.github_url,
        args.org,
        lambda back: manifest(name=args.name, public_url=settings.public_url, redirect_url=back),
    )
    async with journey.open(args.port):
        sys.stderr.write(f"Open {journey.url} in a browser on this machine.\n")
        if not args.no_browser:
            await asyncio.to_thread(webbrowser.open, journey.url)
        code = await journey.code()
        try:
            app: Registered = await convert(settings.github_url, code)
        except GitHubError as error:
            return _say(f"GitHub did not hand over the App's keys ({error}). Begin anew.")
        except ValueError:
            return _say("GitHub handed over an App without a webhook secret. Begin anew.")
    settings = settings.model_copy(
        update={
            "github_app_id": str(app.id),
            "github_private_key": SecretStr(app.pem),
            "webhook_secret": SecretStr(app.webhook_secret),
            "app_name": app.slug,
        }
    )
    keep(args.env, _kept(settings))
    sys.stderr.write(
        f"The App is {app.html_url}; its keys are in {args.env}.\n"
        f"Install it on your repositories: {app.html_url}/installations/new\n"
    )
    return await _examined(settings)


def _kept(settings: Settings) -> dict[str, str]:
    return {
        variable("github_url"): settings.github_url,
        variable("github_app_id"): settings.github_app_id,
        variable("github_private_key"): settings.github_private_key.get_secret_value(),
        variable("webhook_secret"): settings.webhook_secret.get_secret_value(),
        variable("app_name"): settings.app_name,
        variable("public_url"): settings.public_url,
    }


async def _examined(settings: Settings) -> int:
    from bot.cli.checks import examine
    from bot.cli.doctor import told

    checks = await examine(settings)
    sys.stdout.write(told(checks))
    return 0 if all(check.works for check in checks) else FAILED


def _address(name: str, value: str) -> str:
    if not _is_address(value):
        raise SettingsError(f"{name}: give an address such as https://capuchin.example.com.")
    return value.rstrip("/")


def _is_address(value: str) -> bool:
    try:
        parts = urlsplit(value)
        port_is_number = parts.port is None or parts.port > 0
    except ValueError:
        return False
    plain = parts.scheme in ("http", "https") and not (parts.query or parts.fragment)
    return plain and bool(parts.hostname) and port_is_number and "@" not in parts.netloc


def _say(sentence: str) -> int:
    sys.stderr.write(f"capuchin: {sentence}\n")
    return FAILED
