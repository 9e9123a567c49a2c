"""SECURITY.md and docs/security.md name walls and tests that exist."""

import re

from tests.safety.mutations import PROTECTIONS
from tests.safety.run_mutations import ROOT

POLICY = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
ATTACKS = (ROOT / "docs/security.md").read_text(encoding="utf-8")


def test_every_wall_of_the_threat_model_can_be_taken_down() -> None:
    rows = re.findall(r"^\|[^|]+\| (`.+) \|$", POLICY, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert len(rows) >= 9
    assert named <= {protection.name for protection in PROTECTIONS}


def test_every_wall_on_the_host_is_in_the_threat_model() -> None:
    elsewhere = {protection.name for protection in PROTECTIONS if protection.is_elsewhere}
    assert {name for name in elsewhere if f"`{name}`" not in POLICY} == set()


def test_every_test_that_is_named_exists() -> None:
    paths = set(re.findall(r"`((?:tests/)?[\w/]*test_\w+\.py)", ATTACKS))
    assert len(paths) > 10
    for path in paths:
        place = ROOT / path if path.startswith("tests/") else ROOT / "tests/safety" / path
        assert place.is_file(), path
    sources = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    functions = set(re.findall(r"(?:::|`)(test_\w+)`", ATTACKS))
    assert {name for name in functions if f"def {name}(" not in sources} == set()


def test_every_target_that_is_named_is_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    releasing = (ROOT / "docs/releasing.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`make ([a-z-]+)", POLICY + ATTACKS + releasing)) <= targets
