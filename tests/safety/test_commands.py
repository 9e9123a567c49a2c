"""Commands that attack what a test script may attack, and the reading of the checkout they leave.

The `sandbox` fixture looks after each: the next execution must see nothing of the attack.
"""

import pytest

from sandbox.execution.session import SandboxSession
from sandbox.guest.supervisor.capture import MAX_BYTES, MAX_ENTRIES
from sandbox.program import CommandRun, Ending, shell_command
from tests.support.attack_scripts import MANY_PROCESSES, MEMORY_BOMBS
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)


def by_python(script: str) -> str:
    return f"python - <<'END_OF_SCRIPT'\n{script}\nEND_OF_SCRIPT\n"


async def attack(sandbox: SandboxSession, text: str) -> CommandRun:
    return await sandbox.run_command(shell_command(text, output_bytes=20_000))


async def test_a_command_has_no_network_and_no_secret(sandbox: SandboxSession) -> None:
    run = await attack(sandbox, by_python(TEXTS["METADATA"]))
    assert run.output.count("OSError 101") == 3
    seen = await attack(
        sandbox, "env; cat /proc/1/environ; ls -A /opt/capuchin; id -u; cat /proc/1/mem"
    )
    names = {line.partition("=")[0] for line in seen.output.splitlines() if "=" in line}
    assert names <= {
        "PATH", "VIRTUAL_ENV", "HOME", "LANG", "TZ", "PYTHONHASHSEED", "PYTHONUNBUFFERED",
        "PWD", "SHLVL", "_", "OLDPWD",
    }  # fmt: skip
    assert "10001\n" in seen.output
    assert "Permission denied" in seen.output


async def test_a_command_gains_no_right(sandbox: SandboxSession) -> None:
    run = await attack(sandbox, TEXTS["RIGHTS"])
    assert run.output == "CapEff:\t0000000000000000\nNoNewPrivs:\t1\n"


async def test_a_command_has_the_limits_of_a_script(sandbox: SandboxSession) -> None:
    bomb = await attack(sandbox, "exec " + by_python(MEMORY_BOMBS["one process"]))
    assert (bomb.ending, bomb.changes) == (Ending.MEMORY, None)
    flood = await attack(sandbox, "exec yes")
    assert (flood.ending, flood.changes) == (Ending.OUTPUT, None)
    assert len(flood.output) < 21_000
    assert flood.lost
    many = await attack(sandbox, by_python(MANY_PROCESSES))
    assert many.output.endswith("True\n")
    full = await attack(sandbox, "head -c 100M /dev/zero > big")
    assert "No space left" in full.output


async def test_what_runs_on_behind_a_command_cannot_change_what_is_read(
    sandbox: SandboxSession,
) -> None:
    """All of its processes are dead before its checkout is read."""
    run = await attack(sandbox, by_python(TEXTS["SWAP_LINKS"]))
    assert run.changes is not None
    for change in run.changes:
        assert change.content in (b"", b"mine", b"/etc/passwd", b"/proc/1/environ")


async def test_links_are_read_and_never_followed(sandbox: SandboxSession) -> None:
    run = await attack(
        sandbox, "ln -s /etc/passwd a; ln -s /proc/1 b; rm -r tests; ln -s /etc tests; ln -s . loop"
    )
    assert run.changes is not None
    found = {c.path: (c.mode, c.content) for c in run.changes}
    assert found.pop("tests/test_total.py") == ("100644", None)
    assert found == {
        "a": ("120000", b"/etc/passwd"),
        "b": ("120000", b"/proc/1"),
        "loop": ("120000", b"."),
        "tests": ("120000", b"/etc"),
    }


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("mkfifo pipe", "neither a file nor a link"),
        (by_python("import socket; socket.socket(socket.AF_UNIX).bind('s')"), "neither a file"),
        ("truncate -s 60M sparse", f"more than {MAX_BYTES:,} bytes"),
        (f"for n in $(seq {MAX_ENTRIES + 1}); do echo > f$n; done", f"more than {MAX_ENTRIES}"),
        (by_python("import os\nfor _ in range(1500): os.mkdir('d'); os.chdir('d')"), "deep"),
        ("mkdir secret; echo x > secret/x; chmod 0 secret", "cannot be read"),
    ],
    ids=["fifo", "socket", "sparse", "many", "deep", "locked"],
)
async def test_a_checkout_that_cannot_be_read_within_the_limits_is_left_alone(
    sandbox: SandboxSession, command: str, why: str
) -> None:
    run = await attack(sandbox, command)
    assert run.changes is None
    assert why in run.lost


async def test_no_command_can_write_the_report_itself(sandbox: SandboxSession) -> None:
    run = await attack(sandbox, by_python(TEXTS["FORGE_REPORT"]))
    assert (run.exit_code, run.changes) == (0, ())


async def test_names_that_are_not_text_arrive_as_names_that_no_edit_may_have(
    sandbox: SandboxSession,
) -> None:
    run = await attack(
        sandbox, "printf x > \"$(printf 'caf\\351')\"; printf y > \"$(printf 'a\\nb')\""
    )
    assert [change.path for change in run.changes or ()] == ["a\nb", "caf\\xe9"]
