"""Code that looks for the host, the network or the machine."""

import pytest

from tests.support.docker import Execute
from tests.support.own_docker_daemon import OwnDaemon
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)


async def test_proc_and_sys_tell_nothing_of_the_host(execute: Execute) -> None:
    run = await execute(TEXTS["PROC_AND_SYS"])
    assert run.output == ""


async def test_no_host_path_socket_or_device_is_there(
    execute: Execute, gvisor: OwnDaemon | None
) -> None:
    run = await execute(TEXTS["HOST_PATHS"])
    assert run.output == ("[] {'fuse'}\n" if gvisor else "[] set()\n")  # its own, of nothing


async def test_the_hosts_environment_stays_there(
    execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPUCHIN_CANARY", "should-not-leak")
    run = await execute("""
import os
print(*sorted(os.environ))
try: print(open("/proc/1/environ").read().replace("\\0", ""), end="")
except OSError: pass
""")
    ours = "HOME LANG PATH PYTHONHASHSEED PYTHONUNBUFFERED TZ VIRTUAL_ENV\n"
    assert run.output == ours


@pytest.mark.spine
async def test_no_network_answers(execute: Execute) -> None:
    run = await execute(TEXTS["NETWORK"])
    assert run.output == "['lo']\n"


async def test_only_the_plain_families_of_sockets_open(execute: Execute) -> None:
    run = await execute(TEXTS["SOCKETS"])
    assert run.output == "[1, 2, 10]\n"
