"""Public repositories at HEAD: does the ladder install them, and do their own tests pass?

`make bench ONLY=packages TREES=FOLDER` takes those of `packages_list` that the folder has as bare
clones. No model is asked. A repository passes if at least 95 % of its tests do, of a suite that is
longer than `SUITE_SECONDS` those that ran; tests that fail for want of a network count as failures.
Results are kept in build/packages: a second call continues, and `REDO=owner/name` measures that one
again.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from bot.cli.display import print_event
from bot.data.job import Job
from bot.data.run import RunId
from bot.runner.runner import PipelineRunner
from bot.settings import Settings
from pipeline.codebase.commit import Codebase
from pipeline.concurrency import gather_bounded
from pipeline.data.options import Options
from pipeline.data.types import Issue
from pipeline.lab.recall import find_clone
from pipeline.regression.command import find_commands
from pipeline.regression.runner import TestRunner
from pipeline.store import DirStore, ScopedStore
from sandbox.engine import Engine
from sandbox.errors import SandboxError
from tests.benchmarks.sandbox.warm_engine import PARALLEL, engine
from tests.benchmarks.table import Row

FOLDER: Final = Path("build/packages")
SUITE_SECONDS: Final = 150.0
"""Processor seconds of a repository's suite."""
PASSING: Final = 0.95


class Found(BaseModel):
    """What became of one repository."""

    repository: str
    installed: bool = False
    environment: str = ""
    """The attempt in use, and its health, in a line."""
    passed: int = 0
    failed: int = 0
    offline: int = 0
    ended: bool = True
    problem: str = ""
    seconds: float = 0.0
    """Of making and checking the environment."""
    suite: float = 0.0

    @property
    def passes(self) -> bool:
        count = self.passed + self.failed + self.offline
        return bool(count) and self.passed >= PASSING * count

    def line(self) -> str:
        if not self.installed:
            return f"{self.repository}: not installed ({self.seconds:.0f} s). {self.problem}"
        tests = f"{self.passed} passed, {self.failed} failed, {self.offline} want a network"
        rest = "" if self.ended else ", the rest not run"
        word = "passes" if self.passes else "fails"
        times = f"{self.seconds:.0f} s + {self.suite:.0f} s"
        text = f"{self.repository}: {word}, {tests}{rest} ({times}). {self.environment}"
        return f"{text} {self.problem}".rstrip()


async def measure() -> list[Row]:
    trees = os.environ.get("TREES", "")  # noqa: TID251 - how make passes it on
    redo = os.environ.get("REDO", "").split(",")  # noqa: TID251
    if not trees:
        sys.stderr.write("  Give a folder of bare clones: make bench ONLY=packages TREES=FOLDER\n")
        return []
    held = engine("warm")
    clones = {name: clone for name in REPOSITORIES if (clone := find_clone(Path(trees), name))}
    try:
        found = await gather_bounded(
            PARALLEL,
            (_measure(n, clone, held, again=n in redo) for n, clone in clones.items()),
        )
    finally:
        await held.close()
    count = len(found)
    return [
        Row("repositories that install", sum(one.installed for one in found), "", "all", count),
        Row(
            "at least 95 % of their tests pass", sum(one.passes for one in found), "", "all", count
        ),
    ]


async def _measure(repository: str, clone: Path, held: Engine, *, again: bool) -> Found:
    name = repository.replace("/", "+")
    kept = FOLDER / f"{name}.json"
    if kept.is_file() and not again:
        found = Found.model_validate_json(kept.read_text("utf-8"))
        sys.stderr.write(f"  {found.line()}\n")
        return found
    store = DirStore(FOLDER / name / str(time.time_ns()))
    found = Found(repository=repository)
    began = time.monotonic()
    try:
        codebase = await Codebase.open(clone, "HEAD")
        job = Job(
            RunId(f"bench-{name.lower()}"),
            Issue(repository=repository, title="", body=""),
            codebase,
            Options(),
            str(clone),
        )
        runner = PipelineRunner(Settings.from_env(), held)

        on_progress = functools.partial(print_event, of=repository)
        async with runner.open_environment(job, store, on_progress) as environment:
            found.installed = True
            found.seconds = time.monotonic() - began
            best = environment.record.best
            found.environment = best.line() if best else ""
            (FOLDER / name / "record.json").write_text(environment.record.model_dump_json(indent=1))
            begun = time.monotonic()
            for command in await find_commands(codebase):
                suite = TestRunner(
                    command,
                    sandbox=environment.sandbox,
                    store=ScopedStore(store, "suite"),
                    seconds=SUITE_SECONDS,
                )
                run = await suite.run()
                found.passed = len(run.suite.passed)
                found.failed = len(run.suite.failed)
                found.offline = len(run.suite.offline)
                found.ended, found.problem = run.ended, run.problem
                (FOLDER / name / "suite.json").write_text(run.suite.model_dump_json(indent=1))
                if found.passed:
                    break
            found.suite = time.monotonic() - begun
    except SandboxError as error:
        found.problem = " ".join(f"{error} {getattr(error, 'log', '')[-600:]}".split())
        found.seconds = time.monotonic() - began
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(found.model_dump_json(indent=1), "utf-8")
    sys.stderr.write(f"  {found.line()}\n")
    return found


REPOSITORIES = (
    # setuptools, pure
    "un33k/python-slugify",
    "tkem/cachetools",
    "pytest-dev/pluggy",
    "Python-Markdown/markdown",
    "lark-parser/lark",
    "PyCQA/pycodestyle",
    "dateutil/dateutil",
    "dbader/schedule",
    "jd/tenacity",
    "lepture/mistune",
    "psf/requests",
    "benoitc/gunicorn",
    "celery/celery",
    "cookiecutter/cookiecutter",
    "pyinvoke/invoke",
    "jpadilla/pyjwt",
    "joke2k/faker",
    "tqdm/tqdm",
    "coleifer/peewee",
    "python-trio/trio",
    "agronholm/anyio",
    "pytoolz/toolz",
    "spulec/freezegun",
    "getsentry/responses",
    "sqlalchemy/alembic",
    "encode/django-rest-framework",
    "paramiko/paramiko",
    "gitpython-developers/GitPython",
    "google/python-fire",
    "pytest-dev/pytest-asyncio",
    "ipython/ipython",
    "matplotlib/cycler",
    # setuptools, compiled
    "pallets/markupsafe",
    "aio-libs/multidict",
    "aio-libs/yarl",
    "msgpack/msgpack-python",
    "yaml/pyyaml",
    "tornadoweb/tornado",
    "gorakhargosh/watchdog",
    "aio-libs/aiohttp",
    "python-websockets/websockets",
    "falconry/falcon",
    "giampaolo/psutil",
    "simplejson/simplejson",
    "sqlalchemy/sqlalchemy",
    # flit
    "pallets/click",
    "pallets/jinja",
    "pallets/itsdangerous",
    "pallets/werkzeug",
    "pallets/flask",
    "bottlepy/bottle",
    "Delgan/loguru",
    "pypa/packaging",
    "marshmallow-code/marshmallow",
    "more-itertools/more-itertools",
    "mahmoud/boltons",
    "arrow-py/arrow",
    "pyparsing/pyparsing",
    "andialbrecht/sqlparse",
    # hatch
    "python-attrs/attrs",
    "hynek/structlog",
    "python-jsonschema/jsonschema",
    "python-humanize/humanize",
    "encode/httpx",
    "tox-dev/filelock",
    "python-attrs/cattrs",
    "encode/starlette",
    "encode/uvicorn",
    "scrapy/scrapy",
    "pygments/pygments",
    "mkdocs/mkdocs",
    "msiemens/tinydb",
    "pallets-eco/wtforms",
    "urllib3/urllib3",
    "pypa/virtualenv",
    "tox-dev/tox",
    "ipython/traitlets",
    "psf/black",
    "pydantic/pydantic",
    "PyCQA/isort",
    "scikit-build/scikit-build-core",
    # poetry
    "python-poetry/tomlkit",
    "python-poetry/poetry-core",
    "Textualize/rich",
    "python-poetry/poetry",
    # pdm
    "frostming/unearth",
    "pdm-project/pdm-backend",
    "fastapi/typer",
    "pdm-project/pdm",
    # meson-python
    "mesonbuild/meson-python",
    "contourpy/contourpy",
    "PyWavelets/pywt",
    # maturin
    "crate-py/rpds",
    "ijl/orjson",
    "python-pendulum/pendulum",
    "samuelcolvin/watchfiles",
    # setuptools-rust
    "pyca/bcrypt",
    # large
    "pypa/build",
    "networkx/networkx",
    "dask/dask",
    "python-pillow/Pillow",
)
