"""Takes down one wall after another in a copy of the project: some attack must notice each.

`python -m tests.safety.run_mutations` prints a table and exits 1 if nobody noticed. The environment
is prepared once; a wall inside the image is taken down by a layer on it.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

import docker

from sandbox.docker.base_image import recipe_files
from sandbox.docker.client import connect
from sandbox.docker.engine import DockerEngine
from sandbox.docker.options import DockerOptions
from sandbox.environment.options import BuildOptions
from tests.safety.mutation import Wall
from tests.safety.mutations import WALLS
from tests.support.docker import prepare_package_image

ROOT: Final = Path(__file__).resolve().parents[2]
COPIED: Final = ("bot", "pipeline", "prompts", "sandbox", "tests")
SECONDS: Final = 300
# In a narrow summary the reason of a failure would be cut off.
PYTEST: Final = ("env", "COLUMNS=1000", sys.executable, "-m", "pytest", "-x", "-q", "--tb=short")
NOTICED: Final = re.compile(
    r"^(?:FAILED|ERROR) \S*?::(.+?) - "
    r"(?:assert|AssertionError|Failed: (?:DID NOT RAISE|process 1 was brought down))",
    re.MULTILINE,
)
"""A test whose claim does not hold; a sandbox that does not work at all has noticed nothing."""
REFUSED: Final = re.compile(r"SandboxUnavailable: .*(The probe failed: AssertionError)")
"""The product's own look, before anything runs, at what a lane gives."""


def copy_without(wall: Wall, folder: Path) -> None:
    """Raises `ValueError` if the wall no longer stands where the table says."""
    for name in COPIED:
        ignored = shutil.ignore_patterns("__pycache__", "node_modules")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored, symlinks=True)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder / name)
    for name, old, new in wall.changes:
        text = (folder / name).read_text()
        if old not in text:
            raise ValueError(f"{wall.name}: {name} has no {old!r}")
        (folder / name).write_text(text.replace(old, new))


@contextmanager
def image_without(client: docker.APIClient, wall: Wall, folder: Path, whole: str) -> Generator[str]:
    """`whole` with what of the copy in `folder` goes into images; thrown away afterwards."""
    places = image_places()
    changed = sorted({name for name, _, _ in wall.changes if name in places and not wall.layer})
    if not changed and not wall.layer:
        yield whole
        return
    recipe = [f"FROM {whole}", "USER root"]
    recipe += [f"COPY {number} {places[name]}" for number, name in enumerate(changed)]
    recipe.append("RUN python3 -m compileall -qf /opt/capuchin")
    recipe += [wall.layer] if wall.layer else []
    context = {"Dockerfile": "\n".join(recipe).encode()}
    context |= {str(number): (folder / name).read_bytes() for number, name in enumerate(changed)}
    tag = f"capuchin/without:{folder.name.lower()}"
    build(client, context, tag)
    try:
        yield tag
    finally:
        client.remove_image(tag, force=True)


def image_places() -> dict[str, str]:
    """Path in the project to path in an image, of all that is ours there."""
    found: dict[str, str] = {}
    for name in recipe_files():
        inside = name if name.startswith("sandbox/") else f"sandbox/guest/image/{name}"
        found[inside] = f"/opt/capuchin/{name}"
    return found


def build(client: docker.APIClient, context: dict[str, bytes], tag: str) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as out:
        for name, data in context.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o644
            out.addfile(member, io.BytesIO(data))
    archive.seek(0)
    lines = client.build(
        fileobj=archive, custom_context=True, tag=tag, network_mode="none", rm=True, decode=True
    )
    for line in cast(Iterator[dict[str, Any]], lines):
        if "error" in line:
            raise ValueError(f"The image without a wall did not build: {line['error']}")


def who_noticed(wall: Wall, folder: Path, image: str) -> tuple[str, str]:
    """The name of the test, empty if there is none, and what pytest printed."""
    tests = [f"tests/safety/{test}" for test in wall.tests]
    done = subprocess.run(
        [*PYTEST, "--prepared", image, "-k", wall.mode, *tests],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    found = NOTICED.search(done.stdout) or REFUSED.search(done.stdout)
    return (found[1] if found else ""), done.stdout + done.stderr


async def prepare() -> str:
    bundle = Path("/etc/ssl/certs/ca-certificates.crt")
    engine = DockerEngine(
        DockerOptions(
            owner="tests-without",
            build=BuildOptions(ca_bundle=bundle if bundle.is_file() else None),
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        try:
            return await prepare_package_image(engine, Path(folder))
        finally:
            await engine.close()


def check(client: docker.APIClient, wall: Wall, whole: str, *, verbose: bool) -> bool:
    with tempfile.TemporaryDirectory(prefix="without-") as name:
        folder = Path(name)
        copy_without(wall, folder)
        with image_without(client, wall, folder, whole) as image:
            test, printed = who_noticed(wall, folder, image)
    sys.stdout.write(f"{wall.name:<36} {wall.mode or '-':<5} {test or 'NOBODY NOTICED'}\n")
    if verbose and not test:
        sys.stdout.write(printed[-4000:])
    sys.stdout.flush()
    return bool(test)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.safety.run_mutations", description=__doc__
    )
    parser.add_argument("--only", default="", help="walls whose name contains this")
    parser.add_argument("--verbose", action="store_true", help="what pytest said of a missed one")
    options = parser.parse_args(argv)
    chosen = [wall for wall in WALLS if options.only in wall.name]
    if not chosen:
        parser.error(f"no wall is called {options.only!r}")
    whole = asyncio.run(prepare())
    client = connect(None)
    try:
        noticed = [check(client, wall, whole, verbose=options.verbose) for wall in chosen]
    finally:
        client.close()
    sys.stdout.write(f"{sum(noticed)} of {len(chosen)} walls are missed when they are gone\n")
    return 0 if all(noticed) else 1


if __name__ == "__main__":
    sys.exit(main())
