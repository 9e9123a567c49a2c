"""Log lines, the secrets they hide, and the watchdog of the event loop."""

import asyncio
import json
import logging
import subprocess
import sys
import time
from pathlib import Path

import pytest
from structlog.contextvars import bound_contextvars

from bot.settings import Settings
from bot.telemetry.log import REDACTED, build_formatter, list_secrets, watch_loop
from tests.support.texts import texts_of

EVIL = "a\nERROR forged \x1b[31m\u202e"
TEXTS = texts_of(__file__)
CODE: str = TEXTS["CODE"]


def log(log_format: str) -> list[str]:
    argv = [sys.executable, "-c", CODE, log_format]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return done.stderr.splitlines()


def test_debug_adds_our_records_and_not_those_of_libraries() -> None:
    code = """
import logging
from bot.telemetry.log import configure_logging
from bot.settings import Settings
configure_logging(Settings.from_env({"CAPUCHIN_LOG_LEVEL": "debug"}))
logging.getLogger("bot.telemetry.log").debug("model call")
logging.getLogger("anthropic").debug("what was sent")
"""
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stderr.endswith(" DEBUG model call\n")
    assert done.stderr.count("\n") == 1


def record(text: str, *, level: int = logging.WARNING) -> logging.LogRecord:
    return logging.LogRecord("bot.x", level, __file__, 1, text, (), None)


def test_a_record_in_text_is_one_line_but_for_its_traceback() -> None:
    first, second, *traceback = log("text")
    assert first.endswith(
        "Z WARNING repository a\\nERROR forged \\x1b[31m run=r1 repository=acme/x\\n issue=7"
    )
    assert second.endswith("Z ERROR it broke")
    assert traceback[0] == "Traceback (most recent call last):"
    assert traceback[-1] == "ValueError: b\\x1b[31m"


def test_a_record_in_json_is_one_object_with_its_context() -> None:
    first, second = (json.loads(line) for line in log("json"))
    assert first.pop("timestamp").endswith("Z")
    assert first == {
        "event": "repository a\nERROR forged \x1b[31m",
        "level": "warning",
        "logger": "bot.x",
        "run": "r1",
        "issue": 7,
        "repository": "acme/x\n",
    }
    assert (second["event"], "run" in second) == ("it broke", False)
    assert second["exception"].startswith("Traceback (most recent call last):\n")


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_line_holds_a_secret(log_format: str) -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA75\n-----END RSA PRIVATE KEY-----"
    settings = Settings.from_env(
        {
            "CAPUCHIN_LOG_FORMAT": log_format,
            "CAPUCHIN_WEBHOOK_SECRET": 'a webhook\'s "secret"',
            "CAPUCHIN_GITHUB_PRIVATE_KEY": key,
            "ANTHROPIC_API_KEY": "sk-ant-1234",
            "CAPUCHIN_REDIS_URL": "rediss://user:pass%2Fword@redis:6379/0",
            "CAPUCHIN_BUILD_SECRETS": '{"PIP_INDEX_URL": "https://u:p@index.test/"}',
        }
    )
    secrets = [
        'a webhook\'s "secret"',
        "MIIEowIBAAKCAQEA75",
        "sk-ant-1234",
        "pass%2Fword",
        "pass/word",
        "https://u:p@index.test/",
    ]
    formatter = build_formatter(settings.log_format, list_secrets(settings))
    with bound_contextvars(repository="sk-ant-1234"):
        line = formatter.format(record(f"It broke: {' '.join(secrets)} {key}"))
    assert not [each for each in secrets if each in line or json.dumps(each)[1:-1] in line]
    assert line.count(REDACTED) >= len(secrets)
    assert "It broke: " in line


def test_a_secret_too_short_to_be_one_hides_no_word() -> None:
    settings = Settings.from_env({"ANTHROPIC_API_KEY": "run"})
    line = build_formatter("text", list_secrets(settings)).format(record("a run"))
    assert line.endswith(" WARNING a run")


ROOT = Path(__file__).parents[4]
STALL = """
from bot.repo_config.yaml import YamlFile

async def test_it() -> None:
    for _ in range(20):
        YamlFile.parse("x: [" + "1," * 30_000 + "]")
"""


def stand_still(seconds: float) -> None:
    time.sleep(seconds)


async def test_a_stall_is_logged_with_its_stack_and_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, logger="bot.telemetry.log")
    async with watch_loop(seconds=0.05), asyncio.timeout(120):
        while not any("stand_still" in message for message in caplog.messages):
            stand_still(0.5)
        seen = len(caplog.messages)
        while not any("resumed after" in message for message in caplog.messages[seen - 1 :]):
            await asyncio.sleep(0.02)


async def test_a_loop_that_goes_on_is_not_mentioned(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="bot.telemetry.log")
    async with watch_loop(seconds=60):
        await asyncio.sleep(0.1)
    assert caplog.messages == []


def test_a_test_that_makes_the_loop_stand_still_fails(tmp_path: Path) -> None:
    (tmp_path / "test_stall.py").write_text(STALL)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p"]
    command += ["tests.support.loop_watch", "-c", "pyproject.toml", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [*command, str(tmp_path / "test_stall.py")], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 1, done.stdout
    assert "The event loop stood still" in done.stdout
    assert "bot/repo_config/yaml.py" in done.stdout
