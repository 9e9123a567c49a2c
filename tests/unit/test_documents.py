"""What is written for people is held to the code."""

import re
import tomllib
from pathlib import Path

import yaml

from bot.cli import COMMANDS
from bot.commands.verbs import VERBS
from bot.github.credentials import ACTIONS_PERMISSIONS, PERMISSIONS
from bot.webhooks.decide import PAYLOADS
from capuchin_demo.hub.tokens import generate_app
from pipeline.store import FORMAT
from tests.settings_table import WHOLE, fill_tables

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MANIFEST = yaml.safe_load((ROOT / "app.yml").read_text(encoding="utf-8"))


def test_the_tables_of_settings_and_keys_are_current() -> None:
    text = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    assert fill_tables(text) == text, "run: python -m tests.settings_table docs/settings.md"
    for name, render in WHOLE.items():
        assert (ROOT / name).read_text(encoding="utf-8") == render(), f"likewise: {name}"


ASKED = PERMISSIONS | ACTIONS_PERMISSIONS


def test_the_readme_is_read_in_two_minutes() -> None:
    assert len(README.splitlines()) <= 120


def test_the_manifest_asks_for_what_the_bot_uses_and_no_more() -> None:
    assert MANIFEST["default_permissions"] == ASKED
    unasked = {"installation", "installation_repositories"}  # which no App may list
    assert sorted(MANIFEST["default_events"]) == sorted(PAYLOADS.keys() - unasked)


def test_the_readme_gives_a_reason_for_each_permission() -> None:
    for name, level in ASKED.items():
        assert re.search(rf"\| {name.replace('_', ' ')} \| {level} \| \w+", README)


def test_the_demo_hub_grants_what_the_manifest_asks_for() -> None:
    granted = generate_app().permissions
    assert {name: granted[name] for name in ASKED} == ASKED


def test_every_command_the_readme_shows_exists() -> None:
    shown = set(re.findall(r"(?<!/)capuchin ([a-z]+)(?= |`)", README))
    assert shown <= COMMANDS.keys() | {"worker", "serve"}
    assert {"serve", "worker", "fix", "config", "doctor"} <= shown


def test_every_verb_the_readme_shows_exists() -> None:
    shown = set(re.findall(r"/capuchin ([a-z]+)", README))
    assert {"fix", "judge", "use"} <= shown <= VERBS.keys()


def test_every_target_the_readme_shows_is_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?m)(?:^|`)make ([a-z-]+)", README)) <= targets


def test_every_file_and_test_that_a_document_names_exists() -> None:
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in documents)
    paths = set(re.findall(r"\b(?:bot|pipeline|sandbox|prompts|deploy|tests)/[\w./-]*\.\w+", text))
    examples = {"deploy/.env", "tests/test_total.py"}
    assert {path for path in paths - examples if not (ROOT / path).exists()} == set()
    sources = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("tests/**/*.py"))
    named = set(re.findall(r"\b(test_\w+)(?:`|, )", text)) - {"test_patch", "test_files"}
    assert {name for name in named if not re.search(rf"def {name}\b", sources)} == set()


def test_no_document_names_a_variable_that_is_gone() -> None:
    documents = {*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")} - {ROOT / "CHANGELOG.md"}
    named = re.findall(r"CAPUCHIN_(\w+)", "\n".join(one.read_text("utf-8") for one in documents))
    gone = tomllib.loads((ROOT / "bot/data/removed_settings.toml").read_text("utf-8"))
    assert gone["variables"].keys() & {*named} == set()


def test_operators_are_told_the_number_of_the_format() -> None:
    text = (ROOT / "docs/operating.md").read_text(encoding="utf-8")
    assert f"carries the number of its format, now {FORMAT}." in text


READING_ORDER = (
    "bot/solve_issue.py",
    "pipeline/solve.py",
    "pipeline/machine.py",
    "pipeline/generation/testing.py",
    "sandbox/base.py",
)
MOST_TO_READ = 500
"""Lines of all the files that a newcomer reads first."""


def test_the_files_to_read_first_are_short_and_named_in_their_order() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    order = re.search(r"Read in this order.*?(?=\n\n)", text, re.DOTALL)
    assert order
    assert re.findall(r"`([\w/]+\.py)`", order[0]) == list(READING_ORDER)
    texts = [(ROOT / path).read_text(encoding="utf-8") for path in READING_ORDER]
    assert sum(len(text.splitlines()) for text in texts) <= MOST_TO_READ


_FILES = re.compile(r"\]\(([^)#\s:]+)(?=[)#\s])|(?:src|srcset|href)=\"([^\":#]+)(?=[\"#])")


def test_what_documents_link_and_show_is_there() -> None:
    """The site's strict build looks at neither the README nor pictures."""
    for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")):
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        named = [link or shown for link, shown in _FILES.findall(text)]
        assert [one for one in named if not (page.parent / one).exists()] == [], page.name
