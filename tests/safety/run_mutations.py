"""Removes one protection after another in a copy of the project: some attack must notice each.

`python -m tests.safety.run_mutations` prints a table and exits 1 if no attack noticed one. The
environment is prepared once; a layer on its image removes a protection inside the image.
"""

import argparse
import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import docker

from sandbox.docker.base_image import recipe_files
from sandbox.docker.docker_client import connect
from sandbox.docker.docker_engine import DockerEngine, DockerOptions
from sandbox.docker.images import build_from_files
from sandbox.environment.build_options import BuildOptions
from tests.safety.mutations import PROTECTIONS, Protection
from tests.support.docker import prepare_package_image

ROOT: Final = Path(__file__).resolve().parents[2]
COPIED: Final = ("bot", "deploy", "docs", "pipeline", "prompts", "sandbox", "tests")
SECONDS: Final = 600
# In a narrow summary the reason of a failure would be cut off.
PYTEST: Final = ("env", "COLUMNS=1000", sys.executable, "-m", "pytest", "-x", "-q", "--tb=short")
NOTICED: Final = re.compile(
    r"^(?:FAILED|ERROR) \S*?::(.+?) - "
    r"(?:assert|AssertionError|TimeoutError|(?:Failed: )?The event loop stood still"
    r"|Failed: (?:DID NOT RAISE|process 1 was brought down))",
    re.MULTILINE,
)
"""A test whose assertion fails; a sandbox that does not work at all proves nothing."""
REFUSED: Final = re.compile(r"SandboxUnavailable: .*(The probe failed: AssertionError)")
"""The product's own probe of warm containers, before anything else runs."""


def copy_without(protection: Protection, folder: Path) -> None:
    """Raises `ValueError` if the protection is not where the table says."""
    for name in COPIED:
        ignored = shutil.ignore_patterns("__pycache__", "node_modules")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored, symlinks=True)
    for name in (
        "pyproject.toml",
        "README.md",
        "app.yml",
        "capuchin.example.yml",
        "capuchin.schema.json",
    ):
        shutil.copy(ROOT / name, folder / name)
    for name, old, new in protection.changes:
        text = (folder / name).read_text()
        if old not in text:
            raise ValueError(f"{protection.name}: {name} has no {old!r}")
        (folder / name).write_text(text.replace(old, new))


@contextmanager
def image_without(
    client: docker.APIClient, protection: Protection, folder: Path, whole: str
) -> Generator[str]:
    """`whole` with the changed files of the copy in `folder`; removed afterwards."""
    places = image_places()
    changed = sorted(
        {name for name, _, _ in protection.changes if name in places and not protection.layer}
    )
    if not changed and not protection.layer:
        yield whole
        return
    recipe = [f"FROM {whole}", "USER root"]
    recipe += [f"COPY {number} {places[name]}" for number, name in enumerate(changed)]
    recipe.append("RUN python3 -m compileall -qf /opt/capuchin")
    recipe += [protection.layer] if protection.layer else []
    context = {"Dockerfile": "\n".join(recipe).encode()}
    context |= {str(number): (folder / name).read_bytes() for number, name in enumerate(changed)}
    tag = f"capuchin/without:{folder.name.lower()}"
    _, error = build_from_files(client, context, tag=tag, network_mode="none")
    if error:
        raise ValueError(f"The image without a protection did not build: {error}")
    try:
        yield tag
    finally:
        client.remove_image(tag, force=True)


def image_places() -> dict[str, str]:
    """Path in the project to path in an image, for all our files there."""
    found: dict[str, str] = {}
    for name in recipe_files():
        inside = name if name.startswith("sandbox/") else f"sandbox/guest/image/{name}"
        found[inside] = f"/opt/capuchin/{name}"
    return found


def who_noticed(protection: Protection, folder: Path, image: str) -> tuple[str, str]:
    """The name of the test, empty if no test noticed, and what pytest printed."""
    if protection.is_elsewhere:
        words = [*protection.tests]
    else:
        tests = [f"tests/safety/{test}" for test in protection.tests]
        words = ["--prepared", image, "-k", protection.mode, *tests]
    try:
        done = subprocess.run(
            [*PYTEST, *words],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return "", f"The attacks did not end within {SECONDS} s.\n"
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


def check(client: docker.APIClient, protection: Protection, whole: str, *, verbose: bool) -> bool:
    with tempfile.TemporaryDirectory(prefix="without-") as name:
        folder = Path(name)
        copy_without(protection, folder)
        if protection.is_elsewhere:
            test, printed = who_noticed(protection, folder, whole)
        else:
            with image_without(client, protection, folder, whole) as image:
                test, printed = who_noticed(protection, folder, image)
    sys.stdout.write(f"{protection.name:<36} {protection.mode or '-':<5} {test or 'NOT NOTICED'}\n")
    if verbose and not test:
        sys.stdout.write(printed[-4000:])
    sys.stdout.flush()
    return bool(test)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.safety.run_mutations", description=__doc__
    )
    parser.add_argument("--only", default="", help="protections whose name contains this")
    parser.add_argument(
        "--verbose", action="store_true", help="print pytest's output for a missed one"
    )
    options = parser.parse_args(argv)
    chosen = [protection for protection in PROTECTIONS if options.only in protection.name]
    if not chosen:
        parser.error(f"no protection is named {options.only!r}")
    needed = any(not protection.is_elsewhere for protection in chosen)
    whole = asyncio.run(prepare()) if needed else ""
    client = connect(None)
    try:
        noticed = [
            check(client, protection, whole, verbose=options.verbose) for protection in chosen
        ]
    finally:
        client.close()
    sys.stdout.write(
        f"{sum(noticed)} of {len(chosen)} protections are noticed when they are missing\n"
    )
    return 0 if all(noticed) else 1


if __name__ == "__main__":
    sys.exit(main())
