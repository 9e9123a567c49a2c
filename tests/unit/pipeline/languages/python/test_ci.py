"""What CI files install, read with limits and never run."""

import time

import pytest

from pipeline.languages.manifests import entries, parse_yaml, walk_scalars
from pipeline.languages.python.ci import find_ci_recipe
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)
WORKFLOW: str = TEXTS["WORKFLOW"]
GITLAB: str = TEXTS["GITLAB"]


def test_a_workflow_says_what_its_test_job_installs() -> None:
    path = ".github/workflows/ci.yml"
    found = find_ci_recipe(["requirements/ci.txt"], {path: WORKFLOW})
    assert found.needs.extras == ("test",)
    assert found.needs.files == ("requirements/ci.txt",)
    assert found.needs.requirements == ("numpy==1.26", 'six; python_version<"3"')
    assert found.system_packages == ("libxml2-dev",)
    assert path in found.needs.source


def test_gitlab_says_it_with_merged_keys_and_tags() -> None:
    found = find_ci_recipe(["dev.txt"], {".gitlab-ci.yml": GITLAB})
    assert found.needs.files == ("dev.txt",)


def test_a_development_container_says_it_too() -> None:
    text = '{// a comment\n"postCreateCommand": "pip3 install pytest-asyncio"}'.replace(
        "// a", "\n// a"
    )
    found = find_ci_recipe([], {".devcontainer/devcontainer.json": text})
    assert found.needs.requirements == ("pytest-asyncio",)


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)).replace(
            "[*a0, *a0, *a0, *a0, *a0, *a0, *a0, *a0, *a0]", "[lol]"
        ),
        "".join(
            f"a{n}: &a{n}\n  <<: [{', '.join([f'*a{n - 1}'] * 9)}]\n" if n else "a0: &a0 {k: v}\n"
            for n in range(25)
        ),
        "[" * 30_000,
        "jobs: {test: {steps: [{run: '" + ";" * 60_000 + "pytest'}]}}",
        "- " * 20_000,
        "\0",
    ],
    ids=["aliases", "merges", "depth", "separators", "lists", "null"],
)
def test_a_hostile_ci_file_takes_no_time_and_says_nothing(text: str) -> None:
    begun = time.process_time()
    found = find_ci_recipe([], {".github/workflows/ci.yml": text})
    parsed = parse_yaml(text)
    assert sum(1 for _ in walk_scalars(parsed)) <= 20_000
    assert entries(parsed) is not None
    assert found.needs.is_empty
    assert time.process_time() - begun < 10


def test_an_installation_from_another_index_is_not_asked_of_the_usual_one() -> None:
    lines = [
        "pip install --index-url https://pypi.shop.example/simple shop-core",
        "pip install six",
    ]
    lines += ["pip install -i https://test.pypi.org/simple till", "pytest"]
    text = "test: {script: [" + ", ".join(f"'{line}'" for line in lines) + "]}"
    assert find_ci_recipe([], {".gitlab-ci.yml": text}).needs.requirements == ("six",)
