from collections.abc import AsyncGenerator

import httpx
import pytest

from bot.server.app import create_app
from bot.settings import Settings
from tests.e2e.webhook.delivery import serving


@pytest.fixture
async def client(settings: Settings) -> AsyncGenerator[httpx.AsyncClient]:
    async with serving(create_app(settings)) as client:
        yield client
