"""Imports the packages that a repository provides, each in a separate process.

Started by `python -I -c` in the checkout, with one JSON argument: `names`, the packages found in
the tree; `mark`, the start of the answer; `seconds`, the limit of all imports together: processor
time of each, which a busy host does not shorten, and `WALL_FACTOR` times as much wall time.
"""

import glob
import json
import os
import resource
import signal
import subprocess
import sys
import sysconfig
import time
from typing import Any

WALL_FACTOR = 4
MOST_PACKAGES = 6
MOST_DISTRIBUTIONS = 400
LONGEST = 600
"""Characters of an error that are sent."""
LAYOUTS = (".", "src", "lib")
FIND = """
import importlib.util, sys
found = importlib.util.find_spec(sys.argv[1])
sys.stdout.write("\\n" + (found and found.origin or ""))
"""
PYTHONS = ("/usr/local/bin", "/usr/bin", "/opt/pythons/*/bin")
"""As `sandbox.guest.image.choose_python` looks for them."""
PRIVATE = ("tests", "test", "testing", "docs", "examples", "setup")


def main() -> None:
    request = json.loads(sys.argv[1])
    seconds = request["seconds"]
    end = time.time() + WALL_FACTOR * seconds
    names = choose_names(request["names"])[:MOST_PACKAGES]
    packages = [{"name": name, "error": import_package(name, seconds, end)} for name in names]
    version = ".".join(str(number) for number in sys.version_info[:3])
    told = {"python": version, "packages": packages, "installed": list_distributions()}
    told["pythons"] = list_pythons()
    answer = json.dumps(told)
    sys.stdout.write("\n{} {}\n".format(request["mark"], answer))


def choose_names(names: Any) -> Any:
    """The names that the installed repository declares, if the tree contains them; else `names`."""
    stated = [name for path in find_top_level_files() for name in read_words(path)]
    chosen = [name for name in stated if name in names and name not in PRIVATE]
    return list(dict.fromkeys(chosen)) or names


def find_top_level_files() -> Any:
    """The `top_level.txt` files of distributions installed from this checkout."""
    yield from sorted(glob.glob("*.egg-info/top_level.txt"))
    yield from sorted(glob.glob("*/*.egg-info/top_level.txt"))
    site = sysconfig.get_paths()["purelib"]
    for path in sorted(glob.glob(os.path.join(site, "*.dist-info", "direct_url.json"))):
        if "file://" + os.getcwd() in "".join(read_words(path)):
            yield os.path.join(os.path.dirname(path), "top_level.txt")


def list_distributions() -> Any:
    """The distributions in the environment, `name==version`, by the names of their folders."""
    site = sysconfig.get_paths()["purelib"]
    folders = glob.glob(os.path.join(site, "*.dist-info"))
    names = [os.path.basename(folder)[: -len(".dist-info")] for folder in folders]
    return sorted(name.replace("-", "==", 1) for name in names)[:MOST_DISTRIBUTIONS]


def list_pythons() -> Any:
    """The versions of the interpreters that an environment can be made with, `3.N`."""
    found = [
        os.path.basename(path)[len("python") :]
        for place in PYTHONS
        for path in glob.glob(os.path.join(place, "python3.*"))
    ]
    found.append("3.{}".format(sys.version_info[1]))
    minors = {int(one[2:]) for one in found if one[2:].isdigit()}
    return ["3.{}".format(minor) for minor in sorted(minors)]


def read_words(path: str) -> Any:
    try:
        with open(path) as file:
            return file.read(100_000).split()
    except (OSError, ValueError):
        return []


def import_package(name: str, cpu_seconds: float, end: float) -> str:
    """Import a package; return the end of the traceback, empty on success."""
    seconds = end - time.time()
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    most = int(cpu_seconds - spent.ru_utime - spent.ru_stime)
    if seconds <= 0 or most <= 0:
        return "not tried: the other imports took all the time"
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", "import " + name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (most, most)),
        )
    except OSError as error:
        return str(error)
    try:
        output = process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return "the import did not end within {} s".format(int(seconds))
    if process.returncode == 0:
        return find_other(name, seconds)
    if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL) and took(spent) >= most - 1:
        return "the import did not end within {} s of processor time".format(most)
    lines = [line for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
    last = lines[-1].strip() if lines else "it printed nothing"
    if process.returncode < 0:
        last = "killed by signal {}: {}".format(-process.returncode, last)
    return last[:LONGEST]


def took(before: Any) -> float:
    """Processor seconds of the processes that ended since `before`."""
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    return float(now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime)


def find_other(name: str, seconds: float) -> str:
    """Say what hides the checkout's own code from its tests; empty where nothing does.

    Python looks first in the folder that it starts in, but `pytest` and other commands do not.
    """
    here, elsewhere = (find_copy(name, folder, seconds) for folder in (os.getcwd(), "/"))
    if here or (elsewhere and is_release(elsewhere)):
        site = sysconfig.get_paths()["purelib"]
        return "a copy in {} hides the checkout's own code".format(site)
    return ""


def find_copy(name: str, folder: str, seconds: float) -> str:
    """The path in site-packages of what a Python started in `folder` imports, if the checkout has
    a file of that path too."""
    try:
        found = subprocess.check_output(
            [sys.executable, "-c", FIND, name],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
            cwd=folder,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    origin = found.decode("utf-8", "replace").rpartition("\n")[2]
    site = sysconfig.get_paths()["purelib"] + os.sep
    inside = origin[len(site) :] if origin.startswith(site) else ""
    own = inside and any(os.path.exists(os.path.join(layout, inside)) for layout in LAYOUTS)
    return inside if own else ""


def is_release(inside: str) -> bool:
    """Whether the file `inside` site-packages came from a package index (PEP 610)."""
    site = sysconfig.get_paths()["purelib"]
    for path in glob.glob(os.path.join(site, "*.dist-info", "RECORD")):
        with open(path, errors="replace") as record:
            if any(line.startswith(inside + ",") for line in record):
                return not os.path.exists(os.path.join(os.path.dirname(path), "direct_url.json"))
    return False


if __name__ == "__main__":
    main()
