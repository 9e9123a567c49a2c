"""The most truthful version that files and tags say."""

import pytest

from pipeline.languages.python.metadata import find_version

INIT = "src/shop/__init__.py"


@pytest.mark.parametrize(
    ("described", "version"),
    [
        ("v3.4.3-27-g0123abc", "3.4.4.dev27"), ("v3.4.3-0-g0123abc", "3.4.3"),
        ("6.0.0rc1-33-g0123abc", "6.0.0rc1.post1.dev33"), ("shop/release-1.2-4-gabc", "1.3.dev4"),
        ("sympy-1.0-3174-gabc", "1.1.dev3174"), ("rel_1_4_2-3-gabc", "1.4.3.dev3"),
        ("nonsense-1-gabc", ""), ("v1.2;id-1-gabc", ""),
    ],
)  # fmt: skip
def test_a_tag_gives_the_version_after_it(described: str, version: str) -> None:
    assert find_version("shop", {}, described)[0] == version


@pytest.mark.parametrize(
    ("texts", "described", "found"),
    [
        ({"PKG-INFO": "Name: x\nVersion: 3.0.0rc1\n"}, "v9-0-gabc", ("3.0.0rc1", "PKG-INFO")),
        ({INIT: '__version__ = "1.2.dev0"\n'}, "", ("1.2.dev0", INIT)),
        ({INIT: "VERSION = (3, 1, 0, 'alpha', 0)\n"}, "", ("3.1.0", INIT)),
        ({INIT: "__version__ = compute()\n", "VERSION": "4.5\n"}, "", ("4.5", "VERSION")),
        ({"CHANGES.rst": "Changes\n=======\n\nVersion 2.3.0\n---\n\nVersion 2.2.3\n"}, "",
         ("2.3.0", "CHANGES.rst")),
        ({"CHANGELOG.md": "# Log\n## [1.4.0] - 2024-01\n## 1.3\n"}, "", ("1.4.0", "CHANGELOG.md")),
        ({"doc/whats-new.rst": "What's New\n==========\n\n.. _whats-new.0.12.4:\n\n"
          "v0.12.4 (unreleased)\n----\n"}, "", ("0.12.4", "doc/whats-new.rst")),
        ({"docs/changelog.rst": "1.0\n===\n", "NEWS": "2.0\n===\n"}, "", ("2.0", "NEWS")),
        ({"docs/source/release_notes.md": "## 3.1 (2020)\n"}, "",
         ("3.1", "docs/source/release_notes.md")),
        ({"setup.cfg": "[metadata]\nversion = attr: shop.v\n"}, "", ("", "")),
        ({"VERSION": "not a version"}, "", ("", "")),
    ],
)  # fmt: skip
def test_files_say_it_where_no_tag_does(
    texts: dict[str, str], described: str, found: tuple[str, str]
) -> None:
    assert find_version("shop", texts, described) == found
