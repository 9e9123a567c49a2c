"""`capuchin setup`, with a browser and with whatever else is sent to its address."""

import asyncio
import html
import os
import pty
import re
import stat
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.cli.setup import EnvFileError, append_values, check_writable
from bot.cli.setup_browser import RegistrationFlow
from bot.github.app import GitHubApp
from bot.settings import Settings, variable_name
from capuchin_demo.environment import find_free_port
from tests.e2e.cli import readme
from tests.e2e.harness import BotHarness
from tests.support.github.hub import LocalHub
from tests.support.hypothesis_settings import QUICK

ROOT = Path(__file__).parents[3]
PUBLIC = "https://bot.acme.test"


@dataclass
class Setting:
    """A set-up under way, and a browser to go through it."""

    process: asyncio.subprocess.Process
    browser: httpx.AsyncClient
    url: str

    async def form(self) -> tuple[str, str]:
        """Where the page's form goes, and the manifest in it."""
        page = (await self.browser.get(self.url)).text
        action, value = re.search(r'action="([^"]*)"', page), re.search(r'value="([^"]*)"', page)
        assert action
        assert value
        return html.unescape(action[1]), html.unescape(value[1])

    async def through(self) -> httpx.Response:
        """Press the button, and follow GitHub back."""
        action, manifest = await self.form()
        return await self.browser.post(action, data={"manifest": manifest}, follow_redirects=True)

    async def ended(self) -> tuple[int, str, str]:
        out, err = await asyncio.wait_for(self.process.communicate(), 120)
        assert self.process.returncode is not None
        return self.process.returncode, out.decode(), err.decode()


@asynccontextmanager
async def setting_up(
    hub: LocalHub,
    folder: Path,
    *words: str,
    public: str = PUBLIC,
    env: dict[str, str] | None = None,
) -> AsyncGenerator[Setting]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bot", "setup", "--no-browser", "--github-url", hub.url,
        "--env", str(folder / "env"), *(["--public-url", public] if public else []), *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={"PATH": os.defpath + ":/usr/local/bin", "PYTHONPATH": str(ROOT), **(env or {})},
    )  # fmt: skip
    assert process.stderr
    try:
        said = (await asyncio.wait_for(process.stderr.readline(), 120)).decode()
        address = re.fullmatch(r"Open (\S+) in a browser on this machine.\n", said)
        assert address, said
        assert b"ssh -L " in await asyncio.wait_for(process.stderr.readline(), 120)
        async with httpx.AsyncClient(timeout=120, trust_env=False) as browser:
            yield Setting(process, browser, address[1])
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()  # closes its pipes, too


def environment(settings: Settings) -> dict[str, str]:
    """What a doctor needs beside the App."""
    secret = {"anthropic_api_key": settings.anthropic_api_key.get_secret_value()}
    plain = ("redis_url", "solver_model", "anthropic_base_url")
    return {variable_name(name): str(getattr(settings, name)) for name in plain} | {
        variable_name(name): value for name, value in secret.items()
    }


async def test_an_app_is_created_its_keys_kept_and_everything_works(
    recorded_bot: BotHarness, tmp_path: Path
) -> None:
    async with setting_up(
        recorded_bot.hub, tmp_path, "--org", "acme", env=environment(recorded_bot.settings)
    ) as setting:
        action, _ = await setting.form()
        assert action.startswith(
            f"{recorded_bot.hub.url}/organizations/acme/settings/apps/new?state="
        )
        assert (await setting.through()).status_code == 200
        code, out, err = await setting.ended()
    assert (code, "FAIL" in out) == (0, False), out
    assert re.search(r"^ok   GitHub App: ", out, re.MULTILINE)
    assert f"{recorded_bot.hub.url}/apps/capuchin/installations/new" in err
    assert recorded_bot.hub.app_owners == ["acme"]
    assert "PRIVATE KEY" not in out + err


async def test_who_sits_at_a_terminal_is_asked_whose_app_it_is_to_be(
    hub: LocalHub, tmp_path: Path
) -> None:
    mine, theirs = pty.openpty()
    os.write(mine, b"acme\n")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bot", "setup", "--no-browser", "--github-url", hub.url,
        "--env", str(tmp_path / "env"), "--public-url", PUBLIC,
        stdin=theirs, stderr=asyncio.subprocess.PIPE, cwd=ROOT,
        env={"PATH": os.defpath + ":/usr/local/bin", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    os.close(theirs)
    assert process.stderr
    try:
        while not (said := (await process.stderr.readline()).decode()).startswith("Open "):
            assert said
        async with httpx.AsyncClient(timeout=120, trust_env=False) as browser:
            page = await browser.get(said.split()[1])
        assert "/organizations/acme/settings/apps/new" in page.text
        assert page.headers["referrer-policy"] != "no-referrer"  # else the form's origin is null
    finally:
        process.kill()
        await process.communicate()
        os.close(mine)


async def test_the_keys_are_the_apps_and_their_owner_alone_reads_them(
    hub: LocalHub, tmp_path: Path
) -> None:
    (tmp_path / "env").write_text("OTHER=1\n")
    (tmp_path / "env").chmod(0o644)
    async with setting_up(hub, tmp_path) as setting:
        await setting.through()
        await setting.ended()
    file = tmp_path / "env"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    lines = [line for line in file.read_text().splitlines() if line and line[0] != "#"]
    assert lines[0] == "OTHER=1"
    values = {name: value.strip("'") for name, _, value in (line.partition("=") for line in lines)}
    settings = Settings.from_env(values)
    assert (settings.app_name, settings.public_url) == ("capuchin", PUBLIC)
    assert [repo async for repo in GitHubApp(settings).list_repositories()] == []
    assert hub.app.permissions["checks"] == "write"
    assert "workflows" not in hub.app.permissions


async def test_an_app_without_a_webhook_needs_no_address_and_no_secret(
    recorded_bot: BotHarness, tmp_path: Path
) -> None:
    env = environment(recorded_bot.settings)
    async with setting_up(
        recorded_bot.hub, tmp_path, "--no-webhook", public="", env=env
    ) as setting:
        # A call that is repeated prints nothing among the results.
        recorded_bot.hub.faults.fail_next("GET", "/app", status=502)
        await setting.through()
        code, out, err = await setting.ended()
    assert recorded_bot.hub.faults.pending == []
    assert code == 0, out
    assert "FAIL" not in out
    assert "skip" not in out
    assert re.search(r"^ok   webhook secret: ", out, re.MULTILINE)
    assert "capuchin worker --poll 30 --env " in err
    assert recorded_bot.hub.app.events == ()


async def test_an_answer_to_another_question_is_not_heard(hub: LocalHub, tmp_path: Path) -> None:
    async with setting_up(hub, tmp_path) as setting:
        for query in ("", "?code=x", "?code=x&state=wrong", "?state=%ff&code=x"):
            assert (await setting.browser.get(f"{setting.url}created{query}")).status_code == 400
        assert setting.process.returncode is None
        assert (await setting.through()).status_code == 200


async def test_a_code_that_github_does_not_know_is_reported(hub: LocalHub, tmp_path: Path) -> None:
    async with setting_up(hub, tmp_path) as setting:
        action, _ = await setting.form()
        state = action.partition("state=")[2]
        assert (
            await setting.browser.get(f"{setting.url}created?code=nonsense&state={state}")
        ).status_code == 200
        code, _, err = await setting.ended()
    assert code == 1
    assert "/app-manifests/nonsense/conversions: 404" in err
    assert not (tmp_path / "env").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "--public-url: give an address"),
        (("--public-url", "ftp://x"), "--public-url: give an address"),
        (("--public-url", "https://[x"), "--public-url: give an address"),
        (("--public-url", "https://x:y"), "--public-url: give an address"),
        (("--public-url", "https://me:secret@x"), "--public-url: give an address"),
        (("--public-url", PUBLIC, "--github-url", "ghe.acme.test"), "--github-url: give"),
        (
            ("--public-url", PUBLIC, "--org", "a/b"),
            "--org: 'a/b' is not a valid organisation name.",
        ),
    ],
)
async def test_what_github_would_not_take_is_reported_first(
    words: tuple[str, ...], sentence: str
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bot", "setup", *words, stderr=asyncio.subprocess.PIPE, cwd=ROOT
    )
    _, err = await process.communicate()
    assert process.returncode == 2
    assert err.decode().startswith(f"capuchin: {sentence}")


def test_a_file_that_names_an_app_is_not_written_over(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text("export CAPUCHIN_GITHUB_APP_ID=7\n")
    with pytest.raises(EnvFileError):
        check_writable(file)
    file.write_text("CAPUCHIN_GITHUB_APP_ID=\n")
    check_writable(file)
    assert file.exists()


def test_a_setup_that_is_interrupted_leaves_no_file(tmp_path: Path) -> None:
    check_writable(tmp_path / "env")
    assert not (tmp_path / "env").exists()


def test_a_place_that_cannot_be_written_is_reported_before_anything_is_created(
    tmp_path: Path,
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "binary").write_bytes(b"\xff")
    mistyped = tmp_path / "deplyo" / "bot" / ".env"
    places = (tmp_path, tmp_path / "link", tmp_path / "binary", tmp_path / "binary" / "x", mistyped)
    for place in places:
        with pytest.raises(EnvFileError, match="Cannot write"):
            check_writable(place)
    assert not (tmp_path / "elsewhere").exists()
    assert not (tmp_path / "deplyo").exists()


@pytest.mark.parametrize("value", ["a'b", "a\x00b", "a\rb"])
def test_a_value_that_would_break_the_file_is_not_kept(tmp_path: Path, value: str) -> None:
    with pytest.raises(EnvFileError):
        append_values(tmp_path / "env", {"X": value})


WORDS = st.text(st.characters(codec="utf-8"), max_size=30)
HOSTILE = st.binary(max_size=30).map(lambda raw: "".join(f"%{byte:02x}" for byte in raw))
PATHS = st.sampled_from(["/", "/created", "/created/", "//", "/x"]) | HOSTILE.map("/".__add__)
QUERIES = HOSTILE | st.dictionaries(st.sampled_from(["state", "code", "x"]), WORDS, max_size=3).map(
    lambda words: str(httpx.QueryParams(words))
)


@dataclass
class Page:
    """The page, and a browser whose requests reach it inside; its errors are raised here."""

    journey: RegistrationFlow
    browser: httpx.AsyncClient
    given: asyncio.Task[str]

    async def back(self, **query: str) -> httpx.Response:
        return await self.browser.get("/created", params=query)


@pytest.fixture
async def page() -> AsyncGenerator[Page]:
    journey = RegistrationFlow("https://ghe.acme.test", "acme", lambda back: {"redirect_url": back})
    transport = httpx.ASGITransport(journey.build_app())
    given_code = asyncio.create_task(journey.wait_for_code())
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as browser:
        yield Page(journey, browser, given_code)
    given_code.cancel()


@QUICK
@given(
    method=st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]),
    path=PATHS,
    query=QUERIES,
    headers=st.dictionaries(
        st.sampled_from([b"host", b"cookie", b"content-length", b"accept", b"range"]),
        st.binary(max_size=30),
        max_size=2,
    ),
    body=st.binary(max_size=40),
)
async def test_a_request_of_anything(
    page: Page, method: str, path: str, query: str, headers: dict[bytes, bytes], body: bytes
) -> None:
    address = httpx.URL(f"http://127.0.0.1{path}?{query}")
    answer = await page.browser.request(
        method, address, headers=list(headers.items()), content=body
    )
    assert answer.status_code < 500
    assert not page.given.done()
    assert page.journey.state not in answer.text or (path.strip("/"), method) == ("", "GET")


@QUICK
@given(code=WORDS | HOSTILE | st.just("x" * 5_000), state=WORDS | st.just(""))
async def test_without_the_state_no_code_is_heard(page: Page, code: str, state: str) -> None:
    assert (await page.back(code=code, state=state)).status_code == 400
    assert not page.given.done()


@QUICK
@given(code=st.text(st.characters(codec="utf-8"), max_size=300))
async def test_with_the_state_what_is_no_code_is_reported(page: Page, code: str) -> None:
    fits = code.isascii() and 0 < len(code) <= 200
    fits = fits and all(c.isalnum() or c in "-_" for c in code)
    answer = await page.back(code=code, state=page.journey.state)
    assert answer.status_code == (200 if fits else 400)


async def test_missing_twice_huge_or_replayed(page: Page) -> None:
    state = page.journey.state
    assert (await page.browser.get("/created")).status_code == 400
    assert (await page.back(state=state)).status_code == 400
    assert (await page.back(code="abc")).status_code == 400
    assert (await page.back(code="x" * 50_000, state=state)).status_code == 400
    assert (await page.back(code="abc", state=state * 1_000)).status_code == 400
    twice = f"/created?state={state}&state=wrong&code=abc"
    assert (await page.browser.get(twice)).status_code == 400
    assert not page.given.done()
    assert (await page.back(code="first", state=state)).status_code == 200
    assert (await page.back(code="second", state=state)).status_code == 200
    assert await page.given == "first"


async def test_installed_in_the_readmes_line_it_sets_itself_up_and_serves(
    recorded_bot: BotHarness, tmp_path: Path
) -> None:
    (line,) = re.findall(r"`(uv tool install [^`]+)`", readme.README)
    tools = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    path = f"{tmp_path / 'bin'}:{os.defpath}:/usr/local/bin"
    await readme.run(
        f"python3 -m venv uv && uv/bin/pip install --quiet uv && uv/bin/{line}", tmp_path, **tools
    )

    env = {
        **environment(recorded_bot.settings),
        "CAPUCHIN_GITHUB_URL": recorded_bot.hub.url,
        "BROWSER": "true",
        "PATH": path,
    }
    block = readme.SERVE.replace(
        "capuchin serve ", f"capuchin serve --port {(port := find_free_port())} "
    )
    async with (
        readme.shell(block, tmp_path, **env) as process,
        httpx.AsyncClient(timeout=120) as client,
    ):
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
