"""What lies in a tree against what reported: the test files, and the projects that hold them, from
which a run has a result. It knows names of tests and files, and no tool."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from pathlib import PurePosixPath
from typing import Final

from pipeline.codebase.commit import Codebase
from pipeline.languages.registry import find_projects, languages_of, list_tests
from prompts.text import join_names, pluralize
from sandbox.frozen import Frozen

_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_MOST_ALIKE: Final = 50
"""Files that share a name: of more, it tells nothing."""
_MOST_WORDS: Final = 12
"""Of a test's title, from its end."""
_MOST_NAMED: Final = 4


class Ground(Frozen):
    """The test files of a tree with the names of their tests, and its projects' folders."""

    tests: dict[str, tuple[str, ...]]
    """By path: the names of its tests; empty where they are not known."""
    projects: tuple[str, ...] = ()
    """The folders with a manifest; empty for the root."""
    others: tuple[str, ...] = ()
    """Those of them, but the root, that are of no language that is installed."""

    def find_reported(self, results: Iterable[str]) -> set[str]:
        """The test files from which the tests named `results` come.

        Of files that fit equally, the one counts whose folders the name holds.
        """
        by_key: dict[str, list[str]] = defaultdict(list)
        for path, names in self.tests.items():
            titles = {" ".join(name.split()[-_MOST_WORDS:]) for name in names}
            for key in {path, _stem(path), _fold(_stem(path)), *titles} - {""}:
                by_key[key].append(path)
        folders = {path: {*PurePosixPath(path).parts[:-1]} for path in self.tests}
        found: set[str] = set()
        for result in results:
            fit = Counter(
                path
                for key in {*_list_keys(result)}
                if len(alike := by_key.get(key, ())) <= _MOST_ALIKE
                for path in alike
            )
            parts = {*re.split(r"[/:\\. ]", result)}
            scores = {
                path: 100 * (path in result)
                + count
                + len(folders[path] & parts)
                - len(folders[path] - parts)
                for path, count in fit.items()
            }
            best = max(scores.values(), default=0)
            found.update(path for path, score in scores.items() if score == best)
        return found

    def describe_choice(self, root: str) -> str:
        """A sentence on the projects that are not installed; empty where all are. `root` is the one
        that was chosen of several, if any."""
        is_one = bool(root) and len(self.projects) > 1
        names = [f"`{one or '.'}`" for one in (self.projects if is_one else self.others)]
        listed = join_names(names, 8)
        told = f"Projects of other languages are not installed: {listed}; "
        if is_one:
            told = f"Of {len(names)} projects ({listed}) `{root}` is installed; "
        told += "the setting `root`, or `capuchin fix --root`, names another."
        return told if names else ""

    def project_of(self, path: str) -> str:
        """The folder of the innermost project with `path`."""
        inside = (one for one in self.projects if not one or path.startswith(f"{one}/"))
        return max(inside, key=len, default="")

    def count_projects(self, reported: Collection[str]) -> tuple[int, int]:
        """From how many projects with tests a result came, and how many there are."""
        there = {self.project_of(path) for path in self.tests}
        return len(there & {self.project_of(path) for path in reported}), len(there)

    def name_silent(self, reported: Collection[str]) -> str:
        """The folders of test files that are not `reported`, with their numbers, the most first:
        projects where all of one are silent."""
        silent = [path for path in self.tests if path not in reported]
        heard = {self.project_of(path) for path in reported}
        at = Counter(
            own if (own := self.project_of(path)) not in heard else path.rpartition("/")[0]
            for path in silent
        )
        named = [f"`{folder or '.'}` ({count})" for folder, count in at.most_common(_MOST_NAMED)]
        more = len(at) - len(named)
        return join_names([*named, pluralize(more, "more folder")] if more > 0 else named)


async def survey(codebase: Codebase) -> Ground:
    """The ground of a codebase's main language."""
    projects = find_projects(codebase.files)
    installed = find_projects(codebase.files, languages_of(codebase))
    return Ground(
        tests=await list_tests(codebase),
        projects=tuple(projects),
        others=tuple(one for one in projects if one and one not in installed),
    )


def _stem(path: str) -> str:
    return PurePosixPath(path).name.split(".")[0]


def _fold(name: str) -> str:
    """A name as files and classes share it: `test_any_till`, `TestAnyTill`."""
    return name.replace("_", "").lower()


def _list_keys(result: str) -> Iterator[str]:
    """What a result's name may share with a file: a path, a stem, the end of a title."""
    words = _WORD.findall(result)
    yield from (*words, *map(_fold, words))
    for part in result.split("::"):
        yield part
        words = part.split()[-_MOST_WORDS:]
        yield from (" ".join(words[at:]) for at in range(len(words)))
        yield from map(_stem, words)
