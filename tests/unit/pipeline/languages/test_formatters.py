"""Which formatters come into an environment, and in which version."""

import pytest

from pipeline.languages.formatters import (
    HOOKS_FILE,
    list_local_hooks,
    list_packages,
    list_tools,
    read_hooks,
)
from pipeline.languages.manifests import Manifests
from pipeline.languages.registry import LANGUAGES
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)
HOOKS: str = TEXTS["HOOKS"]


def test_a_hook_counts_at_a_released_version_with_what_it_needs() -> None:
    hooks = read_hooks(HOOKS)
    assert {name: hook.version for name, hook in hooks.items()} == {
        "black": "22.1.0",
        "clang-format": "14.0.6",
    }
    assert hooks["black"].more == ("click==8.0.4",)
    assert read_hooks("repos: {") == {}


def test_hooks_of_the_repository_that_format_run_with_the_files_that_they_take() -> None:
    found = list_local_hooks(HOOKS, ["a.py", "src/b.c"], LANGUAGES)
    assert [(one.command, one.only, own) for one, own in found] == [
        (("tools/fmt", "--in-place", "-q"), "", ["a.py"]),
        (("sh", "fmt.sh"), "^src/", ["a.py", "src/b.c"]),
    ]


@pytest.mark.parametrize(
    ("names", "text", "wanted"),
    [
        ((HOOKS_FILE,), HOOKS, ["black==22.1.0 click==8.0.4", "clang-format==14.0.6"]),
        ((".clang-format",), "", ["clang-format"]),
        ((HOOKS_FILE, ".clang-format"), HOOKS.partition("- repo: https://github.com/pre")[0],
         ["black==22.1.0 click==8.0.4", "clang-format"]),
        (("setup.cfg", ".isort.cfg", "lib/.clang-format"), "", []),
    ],
)  # fmt: skip
def test_the_version_that_pre_commit_pins_is_installed_and_clang_format_for_its_file(
    names: tuple[str, ...], text: str, wanted: list[str]
) -> None:
    lines = list(list_tools(Manifests(names, {HOOKS_FILE: text}), LANGUAGES))
    assert [line.partition("--quiet ")[2].partition(" && ")[0] for line in lines] == wanted


def test_rustfmt_comes_where_a_file_asks_for_it() -> None:
    assert "rustfmt" in "".join(list_packages(Manifests(("rustfmt.toml",), {}), LANGUAGES))
    assert list(list_packages(Manifests(("src/lib.rs",), {}), LANGUAGES)) == []
