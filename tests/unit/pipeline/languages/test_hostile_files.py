"""Files of a repository that once stopped the worker that read them, or ended its run."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.languages.detect import MAX_ALL_BYTES, MAX_ALL_CI_BYTES, read_manifests
from pipeline.languages.manifests import parse_ini, parse_toml
from pipeline.languages.python.requirements import find_test_needs
from pipeline.languages.python.tox_nox import tox_lines, tox_routine
from sandbox.environment.dockerfile import check_dockerfile
from sandbox.errors import EnvironmentFailed
from tests.support.docker import make_tree


@pytest.mark.parametrize(
    "text",
    ["a = " + "9" * 5_000, "a = " + "[" * 100_000, "a" + ".a" * 20_000 + " = 1"],
    ids=["a number of 5,000 digits", "nested arrays", "a key of 20,000 parts"],
)
def test_toml_that_cannot_be_read_is_empty(text: str) -> None:
    assert parse_toml(text) == {}
    assert list(tox_lines({"pyproject.toml": text})) == []


LOOP = "[testenv]\ndeps =\n" + "    {[testenv]deps}\n" * 50


@pytest.mark.parametrize(
    "read",
    [
        lambda: tox_routine({"tox.ini": LOOP}, 9),
        lambda: tox_routine({"tox.ini": "[testenv]\ndeps =\n    " + "a," * 50_000 + "\n"}, 9),
        lambda: parse_ini("[a]\n" + "x\n" * 100_000),
    ],
    ids=["settings that name each other", "a long condition", "lines that are no settings"],
)
def test_reading_takes_time_in_proportion_to_the_file(read: Callable[[], object]) -> None:
    began = time.thread_time()
    read()
    assert time.thread_time() - began < 1


def test_conditions_of_tox_are_still_understood() -> None:
    deps = "    py{38,39} , other: new\n    !py39: old\n    https://example.com/x.zip\n"
    routine = tox_routine({"tox.ini": f"[testenv]\ndeps =\n{deps}"}, 9)
    assert routine.installs == (("new",), ("https://example.com/x.zip",))


def test_dotted_keys_of_many_lines_are_not_read() -> None:
    """Each line for itself is short enough; the reader takes quadratic time for each."""
    assert parse_toml("".join(f"x{n}{'.a' * 900} = 1\n" for n in range(1_000))) == {}
    urls = "".join(
        f'[[package]]\nurl = "https://files.example.com/a-{n}.0.1.tar.gz"\n' for n in range(9_000)
    )
    assert len(parse_toml(urls)["package"]) == 9_000


def test_many_files_are_read_up_to_a_size_in_all(tmp_path: Path) -> None:
    """They can be one object of some KB in git."""
    large, workflow = "a\n" * (7 * 1024 * 512), "[" * (60 * 1024)
    files = {f"requirements/{n}.txt": large for n in range(6)}
    files |= {f".github/workflows/{n:02}.yml": workflow for n in range(30)}
    read = read_manifests(make_tree(tmp_path, {"setup.py": "", **files}))
    sizes = {path: len(text) for path, text in read.texts.items()}
    assert sum(sizes.values()) <= MAX_ALL_BYTES
    assert sum(size for path, size in sizes.items() if path.startswith(".g")) <= MAX_ALL_CI_BYTES
    assert len(sizes) > 15
    assert {*read.texts} | {*read.too_large} == {"setup.py", *files}


def test_files_that_require_each_other_or_themselves_are_each_read_once() -> None:
    names = [f"requirements-test{n}.txt" for n in range(50)]
    each = "".join(f"-r {name}\n-c {name}\n" for name in names) + "pytest\n"
    needs = find_test_needs((*names, "setup.py"), dict.fromkeys(names, each), 12)
    assert len(needs.files) <= len(names)


def test_arguments_of_a_dockerfile_do_not_multiply() -> None:
    with pytest.raises(EnvironmentFailed, match="a FROM is too long"):
        check_dockerfile("ARG A=" + "x" * 30_000 + "\nFROM " + "$A" * 30_000 + "\n", ["docker.io"])
