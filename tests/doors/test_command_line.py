"""Commands, their options and their exit codes. The prose of the help is free to change."""

import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.doors.outside import assert_expected, capuchin
from tests.support.command_line import here
from tests.support.data import local_git
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)

COMMANDS = (
    "demo", "serve", "worker", "fix", "select", "replay", "evaluate", "learn", "prices", "config",
    "setup", "doctor",
)  # fmt: skip
ACTIONS = (
    "config check", "config show", "config schema",
    "learn collect", "learn filter", "learn make", "learn merge",
    "learn publish", "learn sample", "learn train",
    "learn judge", "learn serve",
)  # fmt: skip

GROUPS = ("config", "learn")


def usage(*command: str) -> str:
    """What follows the name of the command in the first line of its help."""
    ended = here(*command, "--help")
    assert (ended.code, ended.err) == (0, "")
    first = ended.out.splitlines()[0]
    name = " ".join(("capuchin", *command))
    assert first.startswith(f"usage: {name} ")
    return first.removeprefix(f"usage: {name} ")


def described(line: str) -> dict[str, object]:
    """A usage line's options with what they take (empty: nothing), and its arguments, sorted."""
    options: dict[str, str] = {}
    required: list[str] = []
    exclusive: list[list[str]] = []
    arguments: list[str] = []
    for part in re.findall(r"\[(?:[^\[\]]|\[[^\]]*\])*\]|\([^)]*\)|--\S+ [^-\[(\s]\S*|\S+", line):
        inner = part.strip("[]()")
        if not inner.startswith("-"):
            arguments.append(part)
            continue
        some = [each.partition(" ") for each in inner.split(" | ")]
        options |= {name: taken for name, _, taken in some}
        if len(some) > 1:
            exclusive.append(sorted(name for name, _, _ in some))
        elif not part.startswith("["):
            required.append(some[0][0])
        if part.startswith("("):
            required.append(" | ".join(exclusive[-1]))
    return {
        "options": options,
        "required": sorted(required),
        "exclusive": exclusive,
        "arguments": arguments,
    }


def test_the_entry_points_are_where_they_were() -> None:
    (command,) = entry_points(group="console_scripts", name="capuchin")
    assert command.value == "bot.cli:main"
    assert capuchin("--version").out == here("--version").out
    assert re.fullmatch(r"capuchin \S+\n", here("--version").out)


def test_these_are_the_commands() -> None:
    listed = re.findall(r"(?m)^    ([a-z]+)(?: |$)", here("--help").out)
    assert sorted(listed) == sorted(COMMANDS)
    for command in GROUPS:
        listed = re.findall(r"(?m)^    ([a-z]+)(?: |$)", here(command, "--help").out)
        assert {f"{command} {action}" for action in listed} == {
            action for action in ACTIONS if action.startswith(f"{command} ")
        }


def test_every_command_takes_these_options_and_arguments() -> None:
    commands = ["", *(each for each in COMMANDS if each not in GROUPS), *ACTIONS]
    found = {f"capuchin {each}".strip(): described(usage(*each.split())) for each in commands}
    assert_expected("command_line", found)


@pytest.mark.parametrize("command", ["", *COMMANDS, *ACTIONS])
def test_an_invalid_option_is_wrong_usage(command: str) -> None:
    ended = here(*command.split(), "--no-such-option")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("usage: capuchin")


@pytest.mark.parametrize("words", TEXTS["WRONG"])
def test_wrong_usage_is_2(words: str, tmp_path: Path) -> None:
    local_git.repository(tmp_path, {"README.md": b"An issue\n"})
    ended = here(*words.split(), cwd=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err != ""
    assert sorted(each.name for each in tmp_path.iterdir()) == [".git", "README.md"]


@pytest.mark.parametrize("command", ["demo", "serve", "worker", "doctor", "setup", "fix"])
def test_an_invalid_setting_is_wrong_usage(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPUCHIN_WORKER_RUNS", "many")
    url = ["https://github.com/a/b/issues/1"] if command == "fix" else []
    ended = here(command, *url)
    assert (ended.code, ended.out) == (2, "")
    assert "CAPUCHIN_WORKER_RUNS" in ended.err


def test_what_cannot_be_done_is_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wrong.yml").write_text("samples: 0\n")
    assert here("config", "check", "wrong.yml", cwd=tmp_path).code == 1
    assert here("config", "show", "wrong.yml", cwd=tmp_path).code == 1
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    assert here("demo", cwd=tmp_path).code == 1


def test_keys_are_kept_in_this_file_unless_another_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that cannot be written is named."""
    (tmp_path / "deploy/.env").mkdir(parents=True)
    words = ("setup", "--no-browser", "--public-url", "https://bot.example.com")
    ended = here(*words, cwd=tmp_path)
    assert (ended.code, "deploy/.env" in ended.err) == (1, True)
    ended = here(*words, "--env", "deploy", cwd=tmp_path)
    assert (ended.code, "deploy/.env" in ended.err) == (1, False)
