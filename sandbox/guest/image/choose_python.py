"""Gives the environment a Python that the repository installs on, before any of its code runs.

It runs inside the build container and imports only the standard library. Its exit code is 65 when
there is no such interpreter; then its last line says which exist and what can be done.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ENVIRONMENT = "/opt/env"
TOOLS = "/opt/tools/uv"
PYTHONS = "/opt/pythons"
FOLDERS = "/usr/local/bin:/usr/bin:/bin"
NONE_FITS = 65
VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"


class NoInterpreter(Exception):
    """No interpreter is available; the message says why."""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    for name in ("--accepted", "--wanted", "--asked", "--where"):
        parser.add_argument(name, required=True)
    parser.add_argument("--fetch", action="store_true")
    parser.add_argument("--environment", default=ENVIRONMENT)
    parser.add_argument("--folders", default=FOLDERS)
    options = parser.parse_args(argv)
    environment = Path(options.environment)
    accepted, wanted = parse_versions(options.accepted), parse_versions(options.wanted)
    own = python_version(str(environment / "bin/python"))
    there = find_interpreters(options.folders)
    try:
        chosen, python = choose(wanted, accepted, there, own, fetch=options.fetch)
        if chosen == own:
            return 0
        recreate_environment(environment, python)
    except NoInterpreter as error:
        have = ", ".join(sorted({own, *there} - {""}, key=version_key)) or "none"
        print_line(failure_sentence(options.asked, options.where, have, str(error)))
        return NONE_FITS
    print_line(f"the environment has Python {python_version(str(environment / 'bin/python'))}")
    return 0


def choose(
    wanted: list[str], accepted: list[str], there: dict[str, str], own: str, *, fetch: bool
) -> tuple[str, str]:
    """The version to take and its interpreter, whose path is empty for the environment's own.

    Of the wanted versions the first that is there; with `fetch`, else the first that uv can fetch;
    else an accepted one, the environment's own before others. Raises `NoInterpreter`.
    """
    known = {**there, **({own: ""} if own else {})}
    near = [own, *accepted] if own in accepted and not fetch else accepted
    found = [
        version for version in (*wanted, *(() if fetch and wanted else near)) if version in known
    ]
    if found:
        return found[0], known[found[0]]
    old = wanted or accepted
    fetchable = [version for version in old if version_key(version) >= (3, 8)]  # uv's oldest
    try:
        return (*fetchable, "")[0], install_interpreter(fetchable[:1], old[:1])
    except NoInterpreter:
        nearest = next((version for version in accepted if version in known), None)
        if nearest is None:
            raise
        print_line(f"Python {', '.join(wanted)} is not there; Python {nearest} is the nearest")
        return nearest, known[nearest]


def parse_versions(text: str) -> list[str]:
    return [version for version in text.split(",") if version]


def version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def print_line(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def failure_sentence(asked: str, where: str, have: str, why: str) -> str:
    wants = f"asks for Python {asked} ({where})" if asked else "does not say which Python it wants"
    return (
        f"This repository {wants}, and the sandbox has {have}. "
        f"{why} The maintainers can name another with `python` or bring one with `dockerfile` in "
        "the configuration file; the operator can set UV_PYTHON_INSTALL_MIRROR in "
        "CAPUCHIN_BUILD_SECRETS."
    )


def python_version(python: str) -> str:
    """Its `3.N`; empty if it does not run."""
    try:
        done = subprocess.run(
            [python, "-c", VERSION], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def find_interpreters(folders: str) -> dict[str, str]:
    """Version to path, of those on the search path and those that uv installed."""
    found: dict[str, str] = {}
    places = [Path(folder) for folder in folders.split(os.pathsep) if folder]
    for folder in [*places, *sorted(Path(PYTHONS).glob("*/bin"))]:
        for path in sorted(folder.glob("python3*")):
            if re.fullmatch(r"python3(\.\d+)?", path.name):
                version = python_version(str(path))
                if version:
                    # An environment made through a link may not find its library.
                    found.setdefault(version, str(path.resolve()))
    return found


def install_interpreter(wanted: list[str], too_old: list[str]) -> str:
    """The path of an interpreter that uv fetches; it has none of the versions `too_old`."""
    if not wanted and too_old:
        raise NoInterpreter(f"uv could not fetch Python {too_old[0]}.")
    if not wanted:
        raise NoInterpreter("No version of Python 3 is within these bounds.")
    version = wanted[0]
    uv = ensure_uv()
    network = {"UV_HTTP_TIMEOUT": "20", "UV_HTTP_RETRIES": "1", "UV_NO_CACHE": "1"}
    done = subprocess.run(
        [uv, "python", "install", "--no-bin", "--install-dir", PYTHONS, version],
        env={**os.environ, **network},  # noqa: TID251 - the build container's own
        check=False,
    )
    there = find_interpreters("") if done.returncode == 0 else {}
    if version not in there:
        raise NoInterpreter(f"uv could not fetch Python {version}.")
    return there[version]


def ensure_uv() -> str:
    program = f"{TOOLS}/bin/uv"
    if not Path(program).exists():
        pip = [f"{ENVIRONMENT}/bin/python", "-m", "pip", "install", "--quiet"]
        if subprocess.run([*pip, "--target", TOOLS, "uv"], check=False).returncode:
            raise NoInterpreter("uv, which fetches interpreters, could not be installed.")
    return program


def recreate_environment(environment: Path, python: str) -> None:
    """Make the environment again with `python`, and put the checkout last on its path."""
    made = subprocess.run([python, "-m", "venv", "--clear", str(environment)], check=False)
    if made.returncode:
        raise NoInterpreter(f"{python} cannot make a virtual environment.")
    for packages in environment.glob("lib/python3*/site-packages"):
        (packages / "capuchin.pth").write_text("/testbed\n")


if __name__ == "__main__":
    sys.exit(main())
