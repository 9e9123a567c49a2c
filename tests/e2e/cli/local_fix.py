"""`capuchin fix` on a folder of this machine."""

import argparse
import io
import shutil
import tarfile
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard

from bot.cli import fix as cli_fix
from bot.cli.local_run import USAGE
from bot.cli.out_folder import SealedStore, load_secret
from bot.settings import Settings
from capuchin_demo.recorded.server import RecordedServer
from pipeline.data.options import ONLY_FIXED
from sandbox.frozen import replace
from tests.e2e import shop
from tests.support.certificates import host_certificates
from tests.support.command_line import Ended, ended_with
from tests.support.data import local_git


class LocalFix:
    """A folder with a repository, an issue file, and a recorded model."""

    def __init__(self, folder: Path, llm: RecordedServer, url: str) -> None:
        self.llm = llm
        self.repo, self.issue, self.out = folder / "repo", folder / "issue.md", folder / "out"
        self.issue.write_text(f"{shop.TITLE}\n\n{shop.BODY}\n")
        self.settings = Settings(
            solver_model="anthropic:recorded-claude-sonnet-4-6",
            anthropic_api_key="recorded",  # pyright: ignore[reportArgumentType] - a secret by pydantic
            anthropic_base_url=url,
            generators=ONLY_FIXED,
            data_dir=folder / "data",
            build_ca_bundle=Path(host_certificates()) if host_certificates() else None,
        )

    def commit(self, files: dict[str, str]) -> str:
        return local_git.repository(self.repo, files)

    def continue_run(self, run: "EndedRun") -> None:
        """Go on from a copy of what `run` left, with its repository and its issue."""
        self.repo, self.issue = run.repo, run.issue
        self.settings = replace(self.settings, data_dir=run.data)
        shutil.copytree(run.out, self.out, symlinks=True)

    async def fix(self, *more: str, settings: Settings | None = None) -> int:
        args = ["fix", "--repo", str(self.repo), "--issue", str(self.issue), "--out", str(self.out)]
        return await cli_fix.run_command(parse_arguments([*args, *more]), settings or self.settings)

    async def end(self, code: int, *more: str, settings: Settings | None = None) -> Ended:
        """What it said until it ended with `code`."""
        return await ended_with(code, self.fix(*more, settings=settings))

    async def refuse(self, *more: str, settings: Settings | None = None) -> str:
        """What it said of wrong usage."""
        return (await self.end(USAGE, *more, settings=settings)).err


@dataclass(frozen=True)
class EndedRun:
    """How a run ended, and what it left."""

    code: int
    stdout: str
    stderr: str
    base: str
    """The commit that it started from."""
    git_status: str
    """What git said of the repository afterwards."""
    repo: Path
    issue: Path
    out: Path
    """Read only; `LocalFix.continue_run` goes on from a copy."""
    data: Path
    """The user's state, whose secret is on what `out` holds."""


class SharedRun:
    """One run for all tests of a module that look at a part of it.

    The first of them makes it, whichever that is, and so all that watches a test watches it, too.
    """

    def __init__(self, folder: Path, make: Callable[[LocalFix], Awaitable[int]]) -> None:
        """`make` runs `capuchin fix` on a committed `shop.FILES` and returns its exit code."""
        self._folder = folder
        self._make = make
        self._ended: EndedRun | None = None

    async def ended(self) -> EndedRun:
        if self._ended is None:
            self._ended = await self._end()
        return self._ended

    async def _end(self) -> EndedRun:
        llm = RecordedServer(shop.answers())
        async with llm.serve() as url:
            local = LocalFix(Path(tempfile.mkdtemp(dir=self._folder)), llm, url)
            base = local.commit(shop.FILES)
            with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
                code = await self._make(local)
        assert llm.unexpected == []
        status = local_git.git(local.repo, "status", "--porcelain")
        kept = (local.repo, local.issue, local.out, local.settings.data_dir)
        return EndedRun(code, out.getvalue(), err.getvalue(), base, status, *kept)


def seal(out: Path, settings: Settings) -> None:
    """Let this user's runs go on from what a test put into `out`."""
    store = SealedStore(out, load_secret(settings.data_dir))
    (out / ".capuchin").unlink(missing_ok=True)
    for path in (out / "run").rglob("*.json"):
        key = path.relative_to(store.root).as_posix().removesuffix(".json")
        store.write(key, path.read_bytes())


def parse_arguments(
    words: Sequence[str], register: Callable[[Any], None] = cli_fix.register
) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    register(parser.add_subparsers())
    return parser.parse_args(words)


def unpack_bundle(bundle: Path) -> dict[str, bytes]:
    raw = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(bundle.read_bytes())).read()
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        return {m.name: f.read() for m in tar if (f := tar.extractfile(m)) is not None}
