"""`make test-github`: a real account where `CAPUCHIN_TEST_*` is set, or else the local GitHub."""

import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from bot.settings import Settings
from tests.e2e.people import MAINTAINER
from tests.github.rehearsal import Account, Rehearsal
from tests.support.github.hub import LocalHub
from tests.support.hub import settings_for
from tests.support.redis import RedisServer

GIVEN = dict(os.environ)  # noqa: TID251 - before `no_paid_services` takes it away
VARIABLES = ("REPOSITORY", "APP_ID", "PRIVATE_KEY_FILE", "TOKEN")


def real_account() -> tuple[Account, dict[str, object]] | None:
    """The account and the App's settings; None where no variable is set."""
    given = {name: GIVEN.get(f"CAPUCHIN_TEST_{name}", "") for name in VARIABLES}
    missing = [f"CAPUCHIN_TEST_{name}" for name, value in given.items() if not value]
    if len(missing) == len(VARIABLES):
        return None
    if missing:
        raise pytest.UsageError(f"The rehearsal also needs {', '.join(missing)}.")
    url = GIVEN.get("CAPUCHIN_TEST_GITHUB_URL", "https://github.com")
    key = Path(given["PRIVATE_KEY_FILE"]).read_text(encoding="utf-8")
    app: dict[str, object] = {
        "github_url": url,
        "github_app_id": given["APP_ID"],
        "github_private_key": key,
    }
    return Account(url, given["REPOSITORY"], given["TOKEN"]), app


def pytest_report_header() -> str:
    """Says what will be written, before anything is."""
    if (real := real_account()) is None:
        return "GitHub: the local one"
    place = f"{real[0].github_url}/{real[0].repository}"
    return (
        f"GitHub: {place}. This opens and closes issues and pull requests there, pushes branches, "
        "and commits shop.py, tests/test_x.py and a workflow to its default branch."
    )


@pytest.fixture
async def rehearsal(
    hub: LocalHub, redis_server: RedisServer, redis_prefix: str, tmp_path: Path
) -> AsyncGenerator[Rehearsal]:
    place: dict[str, object] = {
        "redis_url": redis_server.url,
        "redis_prefix": redis_prefix,
        "data_dir": str(tmp_path / "data"),
    }
    if (real := real_account()) is not None:
        account, app = real
        settings = Settings.model_validate({**app, **place, "timings": {"missed_seconds": 5}})
    else:
        repo = hub.add_repo("acme/throw-away", {"README.md": "For rehearsals.\n"})
        repo.grant(MAINTAINER, "write")
        token = hub.tokens.create_for_person(hub.add_user(MAINTAINER)).value
        account = Account(hub.url, repo.full_name, token)
        settings = settings_for(hub, **place, missed_seconds=0.2, sweep_seconds=0.2)
    async with Rehearsal.start(account, settings) as started:
        yield started
