"""The pre-commit hook, run by pre-commit itself."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[4]
HOOK = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))[0]


def run(folder: Path, *words: str, ok: bool = True) -> str:
    programs = Path(sys.executable).parent
    done = subprocess.run(
        words,
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={
            "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(folder),
            "PRE_COMMIT_HOME": str(folder.parent / "cache"),
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "user.name",
            "GIT_CONFIG_VALUE_0": "t",
            "GIT_CONFIG_KEY_1": "user.email",
            "GIT_CONFIG_VALUE_1": "t@example.com",
        },
    )
    assert (done.returncode == 0) is ok, done.stdout
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with our hook, which uses the programs of this environment."""
    ours = tmp_path / "capuchin"
    ours.mkdir()
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", ours)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for folder in (ours, theirs):
        run(folder, "git", "init", "-q")
        run(folder, "git", "add", ".")
        run(folder, "git", "commit", "-q", "--allow-empty", "-m", "x")
    revision = run(ours, "git", "rev-parse", "HEAD").strip()
    hook = {"id": HOOK["id"], "language": "system"}
    config = {"repos": [{"repo": str(ours), "rev": revision, "hooks": [hook]}]}
    (theirs / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    return theirs


def test_a_mistake_stops_the_commit_and_names_its_place(repository: Path) -> None:
    (repository / ".github").mkdir()
    (repository / ".github" / "capuchin.yml").write_text("version: 1\nsampels: 3\n")
    (repository / ".capuchin.yml").write_text("samples: 3\n")
    run(repository, "git", "add", ".")
    said = run(repository, "pre-commit", "run", ok=False)
    assert '.github/capuchin.yml:2:1: There is no setting "sampels".' in said
    assert ".capuchin.yml: valid." in said


def test_a_valid_file_passes_and_others_are_not_looked_at(repository: Path) -> None:
    (repository / ".capuchin.yml").write_text("samples: 3\n")
    (repository / "other.yml").write_text("x: [\n")
    run(repository, "git", "add", ".")
    assert "Passed" in run(repository, "pre-commit", "run")


def test_the_hook_runs_what_the_package_installs() -> None:
    assert HOOK["entry"].split()[0] == "capuchin"
    assert HOOK["language"] == "python"
