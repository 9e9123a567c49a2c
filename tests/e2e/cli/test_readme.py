"""The README's blocks as they stand: only github.com and the issue's address are exchanged."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from capuchin_demo.environment import find_free_port
from tests.e2e import shop
from tests.e2e.cli.test_fix_input import Desk, desk
from tests.e2e.cli.test_setup import Setting, environment
from tests.e2e.harness import BotHarness

__all__ = ["desk"]

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SEE, FIX, SERVE = re.findall(r"^```\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
HOME = "https://github.com/capuchin-app/capuchin"


@asynccontextmanager
async def shell(block: str, folder: Path, **env: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    """The lines of a block in a shell, in the environment of a person who has set nothing."""
    ours = ("CAPUCHIN_", "ANTHROPIC_", "PYTEST", "PYTHONPATH", "VIRTUAL_ENV", "MAKE", "MFLAGS")
    usual = {k: v for k, v in os.environ.items() if not k.startswith(ours)}  # noqa: TID251 - a person's own environment
    clone = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{ROOT}.insteadOf",
        "GIT_CONFIG_VALUE_0": HOME,
    }
    process = await asyncio.create_subprocess_exec(
        "bash", "-e", "-c", block, cwd=folder, env={**usual, **clone, **env},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, process_group=0,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            os.killpg(process.pid, 15)
            await process.communicate()


async def run(block: str, folder: Path, **env: str) -> str:
    async with shell(block, folder, **env) as process:
        out, _ = await asyncio.wait_for(process.communicate(), 1200)
    assert process.returncode == 0, out.decode()
    return out.decode()


async def test_a_clone_shows_the_demo_tests_itself_and_fixes_an_issue(
    desk: Desk, tmp_path: Path
) -> None:
    # `.ci/run` runs all of what `make test` runs.
    said = await run(SEE, tmp_path, PYTEST_ADDOPTS="-k test_both_packages -p no:cacheprovider")
    assert "/pull/2" in said
    assert re.search(r"\b\d+ passed\b", said)

    _, _, url = await desk.reported(
        {**shop.FILES, ".github/capuchin.yml": "generators: [{machine: fixed}]\n"}
    )
    desk.hub.private_mode = False
    desk.llm.recording = shop.answers(shop.RIGHT_AT_ONCE)
    block = FIX.replace("https://github.com/OWNER/NAME/issues/1", url)
    await run(
        block, tmp_path / "capuchin",
        ANTHROPIC_BASE_URL=str(desk.settings.anthropic_base_url),
        CAPUCHIN_GITHUB_URL=desk.hub.url,
    )  # fmt: skip
    assert "+    return a + b" in (tmp_path / "capuchin/out/patch.diff").read_text()


async def test_installed_in_one_line_it_sets_itself_up_and_serves(
    recorded_bot: BotHarness, tmp_path: Path
) -> None:
    (line,) = re.findall(r"`(uv tool install [^`]+)`", README)
    tools = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    path = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.defpath}:/usr/local/bin"
    await run(
        f"python3 -m venv uv && uv/bin/pip install --quiet uv && uv/bin/{line}", tmp_path, **tools
    )

    env = {
        **environment(recorded_bot.settings),
        "CAPUCHIN_GITHUB_URL": recorded_bot.hub.url,
        "BROWSER": "true",
        "PATH": path,
    }
    block = SERVE.replace("capuchin serve ", f"capuchin serve --port {(port := find_free_port())} ")
    async with shell(block, tmp_path, **env) as process, httpx.AsyncClient(timeout=120) as client:
        assert process.stdout
        said = ""
        while "Listening" not in said:
            line = (await asyncio.wait_for(process.stdout.readline(), 300)).decode()
            assert line, said
            said += line
            if found := re.match(r"Open (\S+) in a browser", line):
                await Setting(process, client, found[1]).through()
        assert (await client.get(f"http://127.0.0.1:{port}/healthz")).status_code == 200
    assert "FAIL" not in said
    assert "CAPUCHIN_GITHUB_APP_ID" in (tmp_path / "deploy/.env").read_text()
