"""Installs Debian packages in an image, as root, before any repository's code is there.

It imports only the standard library. Of alternatives, `a|b`, the first that is known is installed.
A package that is not there or too large is left out: the installation itself says what it lacks.
Only a mirror that does not answer fails.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import IO

NAME = re.compile(r"[a-z0-9][a-z0-9+.-]{1,60}")
PROXY = re.compile(r"(https?|no)_proxy", re.IGNORECASE)
SIZE = re.compile(r"After this operation, ([\d,.]+) ([kMG]?B) of additional disk space")
UNITS = {"B": 1e-6, "kB": 1e-3, "MB": 1.0, "GB": 1e3}
NO_MIRROR = 75
"""The exit code if the mirror does not answer: EX_TEMPFAIL of sysexits.h."""
NOT_INSTALLED = "/usr/share/capuchin-not-installed"
"""Names what could not be installed, a sentence each."""
NO_PACKAGE = "Debian could not install"
SECONDS = 480
QUIET = ["-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=30", "-qq"]


def main(argv: list[str]) -> int:
    if not shutil.which("apt-get"):
        print_line("This image has no apt-get: no system package is installed.")
        return 0
    asked = [name.split("|") for name in argv[1:]]
    wanted = [each for each in asked if all(map(NAME.fullmatch, each)) and not is_there(each[0])]
    if wanted and run(["apt-get", *QUIET, "-o", "APT::Update::Error-Mode=any", "update"]):
        print_line("The mirror of Debian's packages does not answer.")
        return NO_MIRROR
    found = {"|".join(each): next(filter(is_known, each), "") for each in wanted}
    known = list(filter(None, found.values()))
    print_line(f"system packages: {', '.join(known) or 'none'}")
    missing = sorted(asked for asked, name in found.items() if not name)
    if missing:
        print_line(f"unknown here: {', '.join(missing)}")
    while known and size_mb(known) > 1500:
        print_line(f"too large: {known.pop()}")
    # Packages of documentation-less images fail without it: OpenJDK's puts links there.
    Path("/usr/share/man/man1").mkdir(parents=True, exist_ok=True)
    if known and run([*install_command(known)]):
        failed = [line for name in known if (line := install_alone(name))]
        Path(NOT_INSTALLED).write_text("".join(failed), encoding="utf-8")
    clean_up()
    return 0


def is_there(name: str) -> bool:
    """Whether the headers of the system's Python are there without their package."""
    include = Path(sysconfig.get_paths()["include"])
    return name == "python3-dev" and (include / "Python.h").exists()


def is_known(name: str) -> bool:
    return run(["apt-cache", "show", name], quiet=True) == 0


def install_command(names: list[str]) -> list[str]:
    return ["apt-get", *QUIET, "install", "--yes", "--no-install-recommends", *names]


def install_alone(name: str) -> str:
    """Install one package; a line that says why it could not be, or nothing."""
    with tempfile.TemporaryFile() as log:
        if not run([*install_command([name])], out=log):
            return ""
        log.seek(0)
        said = log.read().decode(errors="replace").splitlines()
    told = [line.strip() for line in said if re.match(r"E: |dpkg: |\S+: error", line)]
    line = f"{NO_PACKAGE} {name}: {(told or said or ['it says nothing'])[0][:200]}."
    print_line(line)
    return f"{line}\n"


def size_mb(names: list[str]) -> float:
    argv = ["apt-get", "install", "--assume-no", "--no-install-recommends", *names]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=SECONDS)
    match = SIZE.search(done.stdout)
    return float(match[1].replace(",", "")) * UNITS[match[2]] if match else 0.0


def run(argv: list[str], *, quiet: bool = False, out: IO[bytes] | int | None = None) -> int:
    out = subprocess.DEVNULL if quiet else out
    try:
        done = subprocess.run(
            argv,
            env={
                # The proxy beside the build is its only way to the mirror.
                **{name: value for name, value in os.environ.items() if PROXY.fullmatch(name)},  # noqa: TID251 - in the container
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "DEBIAN_FRONTEND": "noninteractive",
            },
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            check=False,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return 1
    return done.returncode


def clean_up() -> None:
    """Leave no list and no archive, and no program with the rights of its owner."""
    for folder in ("/var/lib/apt/lists", "/var/cache/apt"):
        shutil.rmtree(folder, ignore_errors=True)
        Path(folder).mkdir(parents=True, exist_ok=True)
    run(["find", "/", "-xdev", "-perm", "/6000", "-type", "f", "-exec", "chmod", "a-s", "{}", "+"])


def print_line(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv))
