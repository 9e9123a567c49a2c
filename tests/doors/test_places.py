"""Files of this repository that others name: in a shell, in an editor, in a workflow, at GitHub."""

import subprocess

import pytest
import yaml

from tests.doors.outside import ROOT, assert_expected


@pytest.mark.parametrize(
    "target", ["demo", "test", "check", "bench", "prepare", "packages", "lint", "fix"]
)
def test_make_has_these_targets(target: str) -> None:
    subprocess.run(["make", "-n", target], cwd=ROOT, check=True, capture_output=True)


def test_make_demo_is_the_command_that_its_test_runs() -> None:
    # Another make, which runs these tests, would add its own words.
    argv = ["env", "-u", "MAKEFLAGS", "-u", "MAKELEVEL"]
    argv += ["make", "-n", "-o", "prepare", "demo", "ARGS="]
    planned = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True)
    assert planned.stdout.split() == [".venv/bin/capuchin", "demo"]


@pytest.mark.parametrize(
    "path",
    [
        "app.yml",
        "capuchin.example.yml",
        "capuchin.schema.json",
        "deploy/compose.yaml",
        "deploy/kubernetes/kustomization.yaml",
    ],
)
def test_these_files_are_where_they_were(path: str) -> None:
    assert (ROOT / path).is_file()


def test_the_app_asks_for_these_permissions_and_events() -> None:
    manifest = yaml.safe_load((ROOT / "app.yml").read_text(encoding="utf-8"))
    assert manifest["hook_attributes"]["url"].endswith("/webhook")
    kept = ("name", "public", "default_permissions", "default_events")
    assert_expected("app", {name: manifest[name] for name in kept})


def test_the_hook_for_pre_commit_has_its_name_and_its_command() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert (hook["id"], hook["entry"]) == ("capuchin-config", "capuchin config check")
    assert hook["files"] == r"^(\.github/capuchin|\.capuchin)\.yml$"


def test_what_starts_in_compose_is_called_so() -> None:
    compose = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text(encoding="utf-8"))
    services = {name: each.get("profiles", []) for name, each in compose["services"].items()}
    assert_expected("compose", services)
