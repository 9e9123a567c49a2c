"""What this machine lacks is said, by `doctor` in lines, by other commands in one sentence."""

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.request import getproxies

import pytest

from bot.cli import main
from bot.cli.surroundings import explain_unfit_system
from bot.settings import name_socks_proxies
from pipeline.codebase import isolated
from pipeline.codebase.isolated import limits_hold


def test_this_system_is_fit() -> None:
    assert explain_unfit_system() == ""


def test_what_a_mac_lacks_is_the_first_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    assert main(["fix", "--repo", ".", "--issue", "none.md"]) == 1
    said = capsys.readouterr().err
    assert "Linux" in said
    assert len(said.splitlines()) == 1


def test_limits_that_do_not_hold_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits_hold()
    name = "_PROGRAM"
    program: str = vars(isolated)[name]
    without = program.replace("resource.setrlimit(resource.RLIMIT_AS,", "print(file=sys.stderr,*")
    assert without != program
    monkeypatch.setattr(isolated, name, without)
    assert not limits_hold()


def test_gnomes_name_for_a_socks_proxy_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "socks://127.0.0.1:1080/")
    name_socks_proxies()
    assert getproxies()["all"] == "socks5://127.0.0.1:1080/"


HOSTS: dict[str, tuple[dict[str, str], set[str], set[str]]] = {
    "nothing is set": ({}, {"Redis", "GitHub App"}, {"workers", "permissions", "webhooks"}),
    "no Docker": ({"DOCKER_HOST": "unix:///no"}, {"Docker"}, {"base image"}),
    "no certificates": ({"SSL_CERT_FILE": "/no.pem"}, {"environment", "model"}, set()),
    "an unknown proxy": ({"ALL_PROXY": "nonsense://x:1"}, {"model"}, set()),
    "SOCKS, nobody there": ({"ALL_PROXY": "socks://127.0.0.1:1"}, {"model"}, set()),
    "a misspelt variable": ({"CAPUCHIN_SOLVERMODEL": "x"}, {"environment"}, set()),
    "no such price list": ({"CAPUCHIN_PRICES_FILE": "/no.json"}, {"prices"}, set()),
    "a Redis that is none": ({"CAPUCHIN_REDIS_URL": "http://x"}, {"Redis"}, {"workers"}),
    "no name for Redis": ({"CAPUCHIN_REDIS_URL": "redis://x.invalid"}, {"Redis"}, {"workers"}),
    "no model": ({"CAPUCHIN_SOLVER_MODEL": "gpt"}, {"model"}, set()),
    "a proxy without a name": ({"HTTP_PROXY": "http://p.invalid:1"}, {"model"}, set()),
    "no git": ({"PATH": "/nonexistent"}, {"git"}, set()),
}


@pytest.mark.parametrize("host", HOSTS)
def test_doctor_ends_each_check_in_a_line_on_every_broken_host(host: str, tmp_path: Path) -> None:
    changed, failed, skipped = HOSTS[host]
    env = {
        "PATH": os.environ["PATH"],  # noqa: TID251
        "PYTHONPATH": ":".join(sys.path),
        "CAPUCHIN_REDIS_URL": "redis://127.0.0.1:9/0",
        "CAPUCHIN_SOLVER_MODEL": "openai:m@http://192.0.2.1.invalid/v1",
        **changed,
    }
    ended = subprocess.run(
        [sys.executable, "-m", "bot", "doctor"],
        env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (1, "")
    lines = re.findall("^(ok  |FAIL|skip) ([^:]+): (.+)$", ended.stdout, re.MULTILINE)
    assert len(lines) >= len(ended.stdout.splitlines()) - 2, "two titles"
    found = {mark: {name for kind, name, _ in lines if kind == mark} for mark in ("FAIL", "skip")}
    assert failed <= found["FAIL"]
    assert skipped <= found["skip"]
    assert "Traceback" not in ended.stdout
