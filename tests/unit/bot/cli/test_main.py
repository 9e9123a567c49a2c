"""The command line: its output streams and exit codes.

A test starts a process if the environment, a signal, a pipe or a port is involved.
"""

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import pytest

from capuchin_demo.environment import find_free_port
from tests.doors.outside import capuchin
from tests.support.command_line import here
from tests.support.redis import RedisServer
from tests.support.serving import wait_until

ROOT = Path(__file__).parents[4]
NOTHING: Mapping[str, str] = {}


def start(*words: str, cwd: Path = ROOT, env: Mapping[str, str] = NOTHING) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bot", *words],
        cwd=cwd,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": str(ROOT), **env},
    )


@pytest.mark.parametrize(
    ("line", "found"), [("capuchin ev", "evaluate"), ("capuchin fix --sam", "--samples")]
)
def test_a_shell_completes_commands_and_options(line: str, found: str) -> None:
    asked = {"COMP_LINE": line, "COMP_POINT": f"{len(line)}", "_ARGCOMPLETE": "1"}
    program = ["sh", "-c", f"exec {sys.executable} -m bot 8>&1 9>&1"]
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), **asked}
    assert subprocess.check_output(program, text=True, env=env, cwd=ROOT).split() == [found]


@pytest.mark.parametrize(
    ("command", "env", "sentence"),
    [
        ("serve", {}, "CAPUCHIN_WEBHOOK_SECRET is not set."),
        ("serve", {"CAPUCHIN_WORKER_RUNS": "x"}, "CAPUCHIN_WORKER_RUNS: "),
        (
            "serve",
            {"CAPUCHIN_WEBHOOK_SECRET": "x", "CAPUCHIN_REDIS_URL": "x"},
            "CAPUCHIN_REDIS_URL",
        ),
        ("worker", {}, "CAPUCHIN_GITHUB_APP_ID is not set."),
        ("worker", {"CAPUCHIN_GITHUB_APP_ID": "1"}, "CAPUCHIN_GITHUB_PRIVATE_KEY is not set."),
    ],
)
def test_what_is_not_set_is_one_sentence(
    command: str, env: dict[str, str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    code, out, err = here(command)
    assert (code, out) == (2, "")
    assert err.startswith(f"capuchin: {sentence}")
    assert len(err.splitlines()) == 1


def test_the_file_that_lacks_a_variable_is_named(tmp_path: Path) -> None:
    (tmp_path / "env").touch()
    _, _, err = here("serve", "--env", str(tmp_path / "env"))
    assert f"{tmp_path / 'env'} was read." in err


def test_a_file_of_variables_is_read_and_the_environment_wins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / ".env"
    file.write_text("CAPUCHIN_GITHUB_APP_ID='1'\nCAPUCHIN_WORKER_RUNS=x\n")
    # What the command sets is taken back with what this does.
    for name in ("CAPUCHIN_GITHUB_APP_ID", "CAPUCHIN_WORKER_RUNS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    assert here("worker", "--env", str(file))[2].startswith("capuchin: CAPUCHIN_WORKER_RUNS: ")
    monkeypatch.setenv("CAPUCHIN_WORKER_RUNS", "1")
    said = here("worker", "--env", str(file))[2]
    assert said.startswith("capuchin: CAPUCHIN_GITHUB_PRIVATE_KEY is not set.")
    code, _, err = here("serve", "--env", str(tmp_path / "absent"))
    assert (code, str(tmp_path / "absent") in err) == (2, True)


def test_a_missing_demo_is_one_sentence_that_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class WithoutDemo:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "capuchin_demo":
                raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(sys, "meta_path", [WithoutDemo(), *sys.meta_path])
    for name in ("capuchin_demo", "capuchin_demo.run_demo"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    code, out, err = here("demo", "--help")
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert "pip install 'capuchin-bot[demo]'" in err


def test_a_place_that_cannot_be_listened_on_is_one_sentence() -> None:
    """The exit code is not 3, which means that no edit was chosen."""
    env = {"CAPUCHIN_WEBHOOK_SECRET": "s"}
    code, out, err = capuchin("serve", "--host", "no.such.host.invalid", env=env)
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert err.startswith("capuchin: Cannot listen on no.such.host.invalid:8000: ")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, _, err = capuchin("serve", "--port", port, env={"CAPUCHIN_WEBHOOK_SECRET": "s"})
    assert (code, len(err.splitlines())) == (1, 1)
    assert f"Cannot listen on 127.0.0.1:{port}: Address already in use" in err


def test_a_closed_output_causes_no_traceback() -> None:
    process = start("config", "schema")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=120) == 1


def test_serve_answers_and_stops_gracefully(redis_server: RedisServer) -> None:
    port = str(find_free_port())
    env = {"CAPUCHIN_WEBHOOK_SECRET": "s", "CAPUCHIN_REDIS_URL": redis_server.url}
    process = start("serve", "--port", port, env=env)
    try:
        url = f"http://127.0.0.1:{port}/readyz"
        wait_until(lambda: urllib.request.urlopen(url).close(), OSError)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
    assert process.returncode == 0


def test_the_web_process_imports_nothing_heavy() -> None:
    heavy = ("githubkit", "anthropic", "openai", "docker", "jinja2", "bot.solve_issue")
    code = f"""
import sys, bot.server.app, bot.cli.serve
found = [name for name in {heavy!r} if name in sys.modules]
sys.exit(", ".join(found) or None)
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_config_check_names_every_mistake_and_what_was_meant(tmp_path: Path) -> None:
    file = tmp_path / "c.yml"
    file.write_text("python: 3.10\nunproven: drafft\ntrust: 3\ndraft: untilgreen\nsampels: 3\n")
    _, _, err = capuchin("config", "check", str(file))
    lines = err.replace(str(file), "F").splitlines()
    assert [line.split(" ")[0] for line in lines] == [
        "F:1:9:",
        "F:2:11:",
        "F:3:8:",
        "F:4:8:",
        "F:5:1:",
    ]
    named = ["python", "unproven", "trust", "draft", "sampels"]
    assert all(name in line for name, line in zip(named, lines, strict=True))
    assert [line.rpartition("Did you mean ")[2] for line in lines if "Did you mean" in line] == [
        '"draft"?',
        '"until_green"?',
        '"samples"?',
    ]
    _, out, _ = capuchin("config", "check", "--json", str(file))
    assert [each["line"] for each in json.loads(out)["problems"]] == [1, 2, 3, 4, 5]


def test_config_check_names_a_file_that_it_cannot_read_beside_the_others_mistakes(
    tmp_path: Path,
) -> None:
    file = tmp_path / "one.yml"
    file.write_text("trust: admin\n")
    code, _, err = capuchin("config", "check", str(file), str(tmp_path / "none.yml"))
    assert (code, err.count("one.yml:1:8"), err.count("none.yml cannot be read")) == (2, 1, 1)


def test_config_check_writes_no_escape_sequence_to_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "c.yml"
    file.write_text('"\\e[31mred": 1\n')
    _, _, err = here("config", "check", str(file))
    assert err == f'{file}:1:1: There is no setting "\\x1b[31mred".\n'


def test_config_check_finds_the_file_or_none(tmp_path: Path) -> None:
    assert here("config", "check", cwd=tmp_path) == (0, "", "No file: the defaults apply.\n")
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github" / "capuchin.yml").write_text("samples: 2")
    assert here("config", "check", cwd=tmp_path)[2] == ".github/capuchin.yml: valid.\n"


@pytest.mark.parametrize("action", ["check", "show"])
def test_a_file_that_cannot_be_read_is_wrong_usage(tmp_path: Path, action: str) -> None:
    (tmp_path / "binary").write_bytes(b"\xff")
    for name in ("absent", "binary", "."):
        code, out, err = here("config", action, name, cwd=tmp_path)
        assert (code, out, err) == (2, "", f"{name} cannot be read.\n")


def test_config_check_takes_several_files(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("samples: 2")
    (tmp_path / "b.yml").write_text("samples: 0")
    code, out, err = here("config", "check", "--json", "a.yml", "b.yml", cwd=tmp_path)
    assert code == 1
    assert [each["valid"] for each in json.loads(out)] == [True, False]
    assert err.startswith("a.yml: valid.\nb.yml:1:10: ")


def test_doctor_says_what_is_missing_and_the_mend(redis_server: RedisServer) -> None:
    nowhere = f"http://127.0.0.1:{find_free_port()}"
    env = {
        "CAPUCHIN_REDIS_URL": redis_server.url,
        "DOCKER_HOST": "unix:///nowhere.sock",
        "ANTHROPIC_BASE_URL": nowhere,
    }
    code, out, err = capuchin("doctor", "--json", env=env)
    assert (code, err) == (1, "")
    checks = {check["name"]: check for check in json.loads(out)["checks"]}
    assert {"Python", "git", "Redis", "workers"} <= {
        name for name, check in checks.items() if check["works"]
    }
    assert not checks["webhook secret"]["works"]
    assert all(check["mend"] or check["works"] or check["skipped"] for check in checks.values())
    code, out, _ = capuchin("doctor", env=env)
    assert code == 1
    assert "FAIL webhook secret: not set -> Set CAPUCHIN_WEBHOOK_SECRET" in out


def test_serve_reads_what_setup_has_written_and_says_where_it_listens(tmp_path: Path) -> None:
    """As in the README: `capuchin setup …`, then `capuchin serve`."""
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy/.env").write_text("CAPUCHIN_WEBHOOK_SECRET=secret\n")
    process = start("serve", "--port", "0", cwd=tmp_path, env=NOTHING)
    assert process.stderr is not None
    try:
        said = next(line for line in process.stderr if "istening" in line or "capuchin:" in line)
    finally:
        process.kill()
        process.communicate()
    assert re.search(r"Listening on http://127\.0\.0\.1:\d+", said), said
