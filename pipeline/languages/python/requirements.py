"""What the package and its tests need."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from posixpath import normpath
from typing import Any, Final, cast

from pipeline.languages.manifests import Manifests, parse_ini, parse_toml, strings, table
from pipeline.languages.python.interpreter import translate_poetry_bound
from pipeline.languages.python.metadata import is_package, project_of
from pipeline.languages.python.tox_nox import Routine, tox_routine
from sandbox.guest.installer.requirements import is_public_index

GENERAL_REQUIREMENTS: Final = re.compile(
    r"requirements\.txt|requirements/(base|common|main|requirements)\.txt"
)
VERSION_SUFFIX: Final = re.compile(r"[-_.]?(?:py)?[23]\.?\d*(?=\.txt$)")
PYTEST: Final = "pip install pytest"


def dockerfile_steps(manifests: Manifests) -> tuple[str, ...]:
    """Lines that install the checkout itself, whose path a Dockerfile cannot know, and pytest where
    the Dockerfile did not."""
    own = is_package(project_of(manifests.texts), manifests.names)
    editable = ("pip install --no-deps --editable .",) if own else ()
    return (*editable, "python -c 'import pytest' 2>/dev/null || pip install pytest")


def group_names(project: Mapping[str, Any]) -> set[str]:
    """The standard's dependency groups, and those of poetry and pdm."""
    found = set(table(project, "dependency-groups"))
    found |= set(table(project, "tool", "poetry", "group"))
    return found | set(table(project, "tool", "pdm", "dev-dependencies"))


def extra_names(project: Mapping[str, Any], texts: Mapping[str, str]) -> set[str]:
    """The extras declared in any of the three places; setup.py is read, never run."""
    found = set(table(project, "project", "optional-dependencies"))
    found |= set(table(project, "tool", "poetry", "extras"))
    found |= set(table(project, "tool", "setuptools", "dynamic", "optional-dependencies"))
    parser = parse_ini(texts.get("setup.cfg", ""))
    if parser.has_section("options.extras_require"):
        found |= set(parser.options("options.extras_require"))
    script = texts.get("setup.py", "")
    if "extras_require" in script.lower():
        found |= {
            name
            for name in (*TEST_NAMES, "dev")
            if re.search(rf"""["']{name}["']\s*[\]:]""", script)
        }
    return found


TEST_NAMES: Final = ("test", "tests", "testing")
DEVELOPMENT_NAMES: Final = ("dev", "develop", "development")
FILES: Final = re.compile(
    r"(requirements/|tests?/|tests?/requirements/|ci/requirements/|)[^/]*\.txt"
)
NOT_FOR_TESTS: Final = re.compile(
    r"constraint|lint|doc|mypy|typing|(?:^|[-_./])(?:min|minimum|minimal|oldest|lowest)(?=[-_.]|$)"
)
"""Names of requirement files that are not for tests. Minimum versions would undo the package's
own."""
RUNNERS: Final = re.compile(r"^(pytest|nose)", re.MULTILINE | re.IGNORECASE)
TAKES_VALUE: Final = re.compile(
    r"-[cifCt]|--(constraint|index-url|extra-index-url|find-links|config-settings|only-binary"
    r"|upgrade-strategy|no-binary|target|python|progress-bar)"
)
OWN: Final = re.compile(r"\./?\[([\w.,\s-]+)\]", re.ASCII)


@dataclass(frozen=True)
class TestNeeds:
    """The requirements of the tests, in the form of PEP 508."""

    __test__ = False

    extras: tuple[str, ...] = ()
    """Extras of the package itself."""
    files: tuple[str, ...] = ()
    """Requirement files of the tree."""
    requirements: tuple[str, ...] = ()
    source: str = ""
    """The source of these requirements, in words for people."""

    @property
    def is_empty(self) -> bool:
        return not (self.extras or self.files or self.requirements)

    def __or__(self, other: "TestNeeds") -> "TestNeeds":

        def both(one: Sequence[str], two: Sequence[str]) -> tuple[str, ...]:
            return tuple(dict.fromkeys([*one, *two]))

        return TestNeeds(
            both(self.extras, other.extras),
            both(self.files, other.files),
            both(self.requirements, other.requirements),
            " and ".join(dict.fromkeys(filter(None, (self.source, other.source)))),
        )


def find_test_needs(names: Sequence[str], texts: Mapping[str, str], minor: int) -> TestNeeds:
    """Find what tox's environment for Python 3.`minor` installs, with the extra and the group for
    tests. Without such an environment: the requirement files for tests, or hatch's environment."""
    project = project_of(texts)
    tox = tox_routine(texts, minor)
    own, known = [*tox.extras, *find_own_extras(tox)], extra_names(project, texts)
    groups = list(tox.groups) or first_of(TEST_NAMES, group_names(project))
    extras = own or first_of(TEST_NAMES, known)
    files, requirements = split_installs(tox)
    source = "tox's requirements" if files or requirements or own or tox.groups else ""
    if not (extras or files or requirements or groups):
        extras = first_of(DEVELOPMENT_NAMES, known)
        groups = first_of(DEVELOPMENT_NAMES, group_names(project))
    if not source and (extras or groups):
        named = [f'the extra "{extras[0]}"'] if extras else []
        source = " and ".join([*named, *([f'the group "{groups[0]}"'] if groups else [])])
    if not (files or extras or groups):
        files = find_requirement_files(names, texts, package=is_package(project, names))
        source = source or (", ".join(files))
    if not (files or extras or groups or requirements):
        requirements, extras = hatch_needs(project, texts)
        source = "hatch's test environment" if requirements or extras else ""
    for group in groups:
        requirements += expand_group(project, group)
    there = set(names)
    return TestNeeds(
        tuple(dict.fromkeys(extras)),
        tuple(dict.fromkeys(name for name in files if name in there)),
        tuple(dict.fromkeys(requirements)),
        source,
    )


def find_development_needs(texts: Mapping[str, str]) -> TestNeeds:
    """The extra and the group for development: what tests need may stand there alone."""
    project = project_of(texts)
    extras = first_of(DEVELOPMENT_NAMES, extra_names(project, texts))
    groups = first_of(DEVELOPMENT_NAMES, group_names(project))
    requirements = [line for group in groups for line in expand_group(project, group)]
    named = [f'the extra "{name}"' for name in extras] + [f'the group "{name}"' for name in groups]
    return TestNeeds(tuple(extras), (), tuple(requirements), " and ".join(named))


def first_of(names: Sequence[str], known: set[str]) -> list[str]:
    return [name for name in names if name in known][:1]


def split_installs(routine: Routine) -> tuple[list[str], list[str]]:
    """The requirement files and the requirements of a routine's installs; options are left out."""
    files: list[str] = []
    requirements: list[str] = []
    for arguments in routine.installs:
        words = iter(() if names_other_index(arguments) else arguments)
        for word in words:
            match = re.fullmatch(r"(?:-r|--requirement)=?(.*)", word)
            if match:
                name = match[1] or next(words, "")
                if not NOT_FOR_TESTS.search(name):
                    files.append(normpath(name))
            elif word in {"-e", "--editable"} or TAKES_VALUE.fullmatch(word):
                next(words, "")
            elif not word.startswith(("-", ".", "/")) and "git+" not in word:
                requirements.append(word)
    return files, requirements


def names_other_index(words: Sequence[str]) -> bool:
    """Whether an installation by pip is from another index alone, whose names may mean others."""
    for at, word in enumerate(words):
        option, _, value = word.partition("=")
        if option in {"-i", "--index-url", "--default-index"}:
            return not is_public_index(value or next(iter(words[at + 1 : at + 2]), ""))
    return "--no-index" in words


def find_own_extras(routine: Routine) -> list[str]:
    """The extras in a routine's installs of the checkout itself, such as `.[test]`."""
    found = (OWN.fullmatch(word) for arguments in routine.installs for word in arguments)
    return [name for match in found if match for name in re.split(r"[\s,]+", match[1]) if name]


def find_requirement_files(
    names: Sequence[str], texts: Mapping[str, str], *, package: bool
) -> list[str]:
    """The general file, then those for tests, else those for development.

    For a package, only those for tests: its metadata names its requirements, and a plain
    requirements.txt often pins a deployment that no longer installs. The exception is a
    requirements.txt that names a test runner. A file for one version of Python (`tests37.txt`) is
    left out if there is a general one.
    """
    known = [name for name in names if FILES.fullmatch(name) and not NOT_FOR_TESTS.search(name)]
    known = [name for name in known if "requirements" in name]
    known = [name for name in known if {VERSION_SUFFIX.sub("", name), name} & {*known} == {name}]
    general = [] if package else [name for name in known if GENERAL_REQUIREMENTS.fullmatch(name)]
    others = [name for name in known if name not in general]
    tests = [name for name in others if "test" in name]
    tests = tests or [name for name in others if "dev" in name]
    if not tests and package and RUNNERS.search(texts.get("requirements.txt", "")):
        return ["requirements.txt"]
    return general + tests


def hatch_needs(
    project: Mapping[str, Any], texts: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Requirements and extras of hatch's environment for tests; https://hatch.pypa.io/latest/config/environment/"""
    environments = {
        **table(parse_toml(texts.get("hatch.toml", "")), "envs"),
        **table(project, "tool", "hatch", "envs"),
    }
    for name in (*TEST_NAMES, "hatch-test", "default", *DEVELOPMENT_NAMES):
        chosen = table(environments, name)
        found = strings(chosen.get("dependencies")) + strings(chosen.get("extra-dependencies"))
        features = strings(chosen.get("features"))
        if found or features:
            return [one for one in found if "{" not in one], features
    return [], []


def expand_group(project: Mapping[str, Any], name: str, depth: int = 0) -> list[str]:
    """The requirements of a dependency group of the standard, of poetry, or of pdm.

    https://packaging.python.org/en/latest/specifications/dependency-groups/
    """
    value = table(project, "dependency-groups").get(name)
    value = value or table(project, "tool", "pdm", "dev-dependencies").get(name)
    if isinstance(value, list):
        found: list[str] = []
        for item in cast(list[Any], value):
            if isinstance(item, str):
                found.append(item)
            elif isinstance(item, dict) and depth < 5:
                other = cast(dict[str, Any], item).get("include-group")
                found += expand_group(project, str(other), depth + 1)
        return found
    poetry = table(project, "tool", "poetry", "group", name, "dependencies")
    if not poetry and name in DEVELOPMENT_NAMES:
        poetry = table(project, "tool", "poetry", "dev-dependencies")
    return [line for key, wanted in poetry.items() for line in poetry_requirement(key, wanted)]


def poetry_requirement(name: str, wanted: Any) -> Iterator[str]:
    """One dependency of poetry in the form of PEP 508; paths are left out."""
    stated = cast(dict[str, Any], wanted) if isinstance(wanted, dict) else {"version": wanted}
    if "git" in stated:
        reference = stated.get("rev") or stated.get("tag") or stated.get("branch")
        yield f"{name} @ git+{stated['git']}" + (f"@{reference}" if reference else "")
    elif isinstance(stated.get("version"), str):
        bound = translate_poetry_bound(stated["version"]) or ""
        extras = f"[{','.join(strings(stated.get('extras')))}]" if stated.get("extras") else ""
        marker = stated.get("markers")
        yield f"{name}{extras}{'' if '*' in bound and '=' not in bound else bound}" + (
            f" ; {marker}" if isinstance(marker, str) else ""
        )
