"""The house stays in order: unique names, verbs, one importer of an SDK, plain English."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.support.sources import ROOT, list_modules, parse

ROOMS: Final = ("bot", "pipeline", "sandbox")
IMPORTERS: Final[Mapping[str, str]] = {
    "anthropic": "pipeline/models/providers/",
    "arq": "bot/queue/jobs.py",
    "datasets": "pipeline/lab/learning/trainer/",
    "docker": "sandbox/docker/",
    "githubkit": "bot/github/",
    "kubernetes": "sandbox/kubernetes/",
    "numpy": "nowhere",
    "obstore": "bot/archive.py",
    "openai": "pipeline/models/providers/",
    "peft": "pipeline/lab/learning/trainer/",
    "redis": "bot/storage/",
    "scipy": "nowhere",
    "torch": "pipeline/lab/learning/trainer/",
    "transformers": "pipeline/lab/learning/trainer/",
    "trl": "pipeline/lab/learning/trainer/",
    "vllm": "nowhere",
}
"""An SDK, and the one place that may import it."""
OFTEN: Final = frozenset({"__init__.py", "install.py"})
"""Files that each package or language has."""
WORDS: Final = re.compile(r"\w+")
IRREGULAR: Final = frozenset(
    WORDS.findall(
        "begun bought brought built chosen cut done drawn driven eaten fallen felt found forgiven "
        "forgotten frozen given gone grown heard held hidden hurt kept known laid led left lent "
        "let lost made meant met paid proven put read ridden run said seen sent set shaken shown "
        "shut sold spent spoken stolen struck sung sworn taken taught thought thrown told torn "
        "understood worn written"
    )
)
BASE_FORMS: Final = frozenset({"cut", "let", "put", "read", "run", "set", "shut"})
"""Participles that are also the verb's base form."""
NOT_PARTICIPLES: Final = frozenset({"embed", "exceed", "feed", "need", "proceed", "seed", "speed"})
IDIOMS: Final = re.compile(
    r"\b(now so, now otherwise|told of|tells? of|let be|(?<!there )is none|(?<!there )are none|"
    r"whoever|as ever|none of our business|there is nobody|says? so of)\b"
)
"""German in English words; say it in the active voice with the field's noun."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(room: str) -> Iterator[tuple[Path, Function]]:
    for path in list_modules(room):
        for node in ast.walk(parse(path)):
            if isinstance(node, Function):
                yield path, node


def is_property(function: Function) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in function.decorator_list)


def starts_with_participle(name: str) -> bool:
    first = name.strip("_").split("_")[0]
    if first in BASE_FORMS | NOT_PARTICIPLES:
        return False
    return first in IRREGULAR or (len(first) > 3 and first.endswith("ed"))


def test_an_sdk_has_one_importer() -> None:
    wrong: list[str] = []
    for path in (path for room in (*ROOMS, "prompts") for path in list_modules(room)):
        place = str(path.relative_to(ROOT))
        for node in ast.walk(parse(path)):
            names = (
                [alias.name for alias in node.names] if isinstance(node, ast.Import)
                else [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level
                else []
            )  # fmt: skip
            packages = (name.partition(".")[0] for name in names)
            wrong += [
                f"{place} imports {package}"
                for package in packages
                if not place.startswith(IMPORTERS.get(package, ""))
            ]
    assert wrong == []


def test_no_file_name_occurs_more_than_twice() -> None:
    rooms = (*ROOMS, "prompts", "deploy/demo")
    names = Counter(path.name for room in rooms for path in list_modules(room))
    assert {name for name, times in names.items() if times > 2} <= OFTEN


@pytest.mark.parametrize("room", ROOMS)
def test_no_two_classes_of_a_room_share_a_name(room: str) -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in list_modules(room):
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


@pytest.mark.parametrize("room", ROOMS)
def test_a_function_is_named_by_what_it_does(room: str) -> None:
    """Properties may be adjectives; a function is a verb in its base form, or a noun."""
    wrong = [
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}"
        for path, function in functions(room)
        if starts_with_participle(function.name) and not is_property(function)
    ]
    assert wrong == []


@pytest.mark.parametrize("room", ROOMS)
def test_every_package_says_what_it_is_and_where_to_start(room: str) -> None:
    for path in list_modules(room):
        if path.name != "__init__.py":
            continue
        text = ast.get_docstring(parse(path)) or ""
        assert text, f"{path} has no docstring"
        for name in re.findall(r"[Ss]tart at `(\w+\.py)`", text):
            assert (path.parent / name).is_file(), f"{path} sends readers to {name}"


@pytest.mark.parametrize("room", [*ROOMS, "prompts"])
def test_docstrings_and_texts_are_plain_english(room: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {match[0]}"
        for path in list_modules(room)
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for match in IDIOMS.finditer(" ".join(node.value.split()))
    ]
    assert found == []


def test_documents_are_plain_english() -> None:
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")]
    texts = {path.name: " ".join(path.read_text(encoding="utf-8").split()) for path in paths}
    found = {name: IDIOMS.findall(text) for name, text in texts.items()}
    assert {name: idioms for name, idioms in found.items() if idioms} == {}


TESTS = Path(__file__).parents[1]
IMPORT = re.compile(
    r"^\s*(?:from|import) (tests\.(?!safety\.)(?:\w+\.)*(?:test_\w+|conftest))\b", re.M
)
"""But for the attacks of `tests/safety`, which pods have to bear too."""


def test_nobody_imports_a_test_module_or_a_conftest() -> None:
    found = [
        f"{path.relative_to(TESTS)}: {module}"
        for path in sorted(TESTS.rglob("*.py"))
        for module in IMPORT.findall(path.read_text())
    ]
    assert found == []
