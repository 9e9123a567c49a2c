"""Decides which paths an edit may name. A model is hostile: only ordinary files are permitted."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from pipeline.codebase.commit import SUBMODULE, SYMLINK, File
from pipeline.codebase.globs import Globs

_LONGEST_PATH = 1024
_LONGEST_NAME = 255


_CI = """
    .github .circleci .buildkite .gitlab-ci.yml .gitlab .travis.yml .drone.yml .cirrus.yml
    .appveyor.yml appveyor.yml azure-pipelines.yml bitbucket-pipelines.yml jenkinsfile .woodpecker
    .woodpecker.yml .semaphore .tekton .teamcity .azure-pipelines ci/jenkinsfile .buddy .jenkins
    .harness .codefresh codefresh.yml .codeship codeship-steps.yml buildspec.yml cloudbuild.yaml
    cloudbuild.yml .prow.yaml zuul.yaml .zuul.yaml .zuul.d
"""
_EDITORS = """
    .vscode .idea .devcontainer .devcontainer.json .gitpod.yml .gitpod.dockerfile .envrc .lfsconfig
    .fleet .zed .theia .cursor .replit .mise.toml mise.toml .tool-versions
"""
_BOTS = """
    .mergify.yml .mergify renovate.json renovate.json5 .renovaterc .renovaterc.json
    .pre-commit-config.yaml .pre-commit-hooks.yaml lefthook.yml .lefthook.yml .husky .kodiak.toml
    .snyk .sourcery.yaml .coderabbit.yaml .travis
"""
_CONTROL_FILES = frozenset([*_CI.split(), *_EDITORS.split(), *_BOTS.split(), ".capuchin.yml"])
"""At the root: instructions for CI services, editors, bots and Capuchin itself. A hostile issue
could ask to change them."""


# fmt: off
_LOCK_FILES = frozenset(
    {
        "poetry.lock", "uv.lock", "pdm.lock", "pipfile.lock", "pixi.lock", "conda-lock.yml",
        "pylock.toml", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml",
        "bun.lock", "bun.lockb", "cargo.lock", "go.sum", "gemfile.lock", "composer.lock",
        "mix.lock", "flake.lock",
    }
)
# fmt: on
"""Written by package managers; in lower case."""


def refusal(
    path: str,
    files: Mapping[str, File],
    never_touch: Iterable[str] = (),
    *,
    allow_lock_files: bool = False,
) -> str | None:
    """Why `path` may not be edited, as a sentence for the model; None if it may be."""
    return (
        _check_form(path)
        or _check_guarded(path)
        or _check_file(path, files)
        or (None if allow_lock_files else _check_lock_file(path))
        or _check_settings(path, never_touch)
    )


def _check_form(path: str) -> str | None:
    if any(unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") for letter in path):
        return f"The path {path!r} holds a control character."
    if not path or len(path.encode()) > _LONGEST_PATH:
        return "A path must not be empty nor longer than 1024 bytes."
    if path.startswith(("/", "~")) or "\\" in path or path[1:2] == ":":
        return f"The path {path!r} must be relative to the repository's root, with forward slashes."
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return f"The path {path!r} must be plain: no empty part, no `.` and no `..`."
    if any(len(part.encode()) > _LONGEST_NAME or part != part.strip() for part in parts):
        return f"The path {path!r} has a part that is too long or begins or ends with a space."
    return None


def _check_guarded(path: str) -> str | None:
    # Windows and macOS also treat .GIT, ".git ", .git::$INDEX_ALLOCATION and GIT~1 as .git.
    parts = [part.casefold().split(":")[0].rstrip(" .") for part in path.split("/")]
    if any(part == ".git" or part.startswith("git~") for part in parts):
        return f"The path {path!r} is git's own: no edit may touch it."
    if parts[-1] in (".gitmodules", ".gitattributes"):
        return f"No edit may touch {parts[-1]}."
    if parts[:2] == [".github", "workflows"]:
        return f"The path {path!r} is a workflow: no edit may touch .github/workflows."
    if _CONTROL_FILES & {parts[0], "/".join(parts[:2])} or parts[-1] == "codeowners":
        return f"The path {path!r} steers what runs or who reviews: no edit may touch it."
    return None


def _check_lock_file(path: str) -> str | None:
    if path.rsplit("/", 1)[-1].lower() not in _LOCK_FILES:
        return None
    return f"{path} is a lock file, which a package manager writes: no edit may touch it."


def _check_file(path: str, files: Mapping[str, File]) -> str | None:
    for place in (path, *(str(parent) for parent in PurePosixPath(path).parents)):
        file = files.get(place)
        if file is None:
            continue
        if file.mode == SYMLINK:
            return f"{place} is a symbolic link: edit the file it stands for."
        if file.mode == SUBMODULE:
            return f"{place} is a submodule: it belongs to another repository."
        if place != path:
            return f"{place} is a file, so {path} cannot be in it."
    if path not in files and any(other.startswith(f"{path}/") for other in files):
        return f"{path} is a folder."
    return None


def _check_settings(path: str, never_touch: Iterable[str]) -> str | None:
    pattern = Globs(never_touch).first_match(path)
    if pattern is None:
        return None
    return f"This repository's settings forbid edits of {pattern}, which {path} is."
