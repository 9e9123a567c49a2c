"""Code that tries to gain rights, or to make system calls that it must not make."""

import json
import platform

import pytest

from sandbox.guest.supervisor.seccomp import FORBIDDEN
from sandbox.program import Ending
from tests.support.docker import Execute
from tests.support.own_docker_daemon import OwnDaemon
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)


async def test_no_dangerous_system_call_gets_through(execute: Execute) -> None:
    """Without pointers: a call that the filter does not refuse answers EINVAL or EFAULT."""
    column = ["x86_64", "aarch64"].index(platform.machine())
    calls = {name: both[column] for name, both in FORBIDDEN.items() if both[column] is not None}
    run = await execute(TEXTS["SYSTEM_CALLS"].format(calls=json.dumps(calls)))
    assert run.output == "done\n"


async def test_it_has_no_right_that_it_could_use_or_get_back(execute: Execute) -> None:
    run = await execute(TEXTS["RIGHTS"])
    assert run.output == (
        "(10001, 10001, 10001) (10001, 10001, 10001) [10001]\n"
        "CapInh 0 CapPrm 0 CapEff 0 CapBnd 0 CapAmb 0 NoNewPrivs 1 Seccomp 2\n"
        "1000\n"
    )


async def test_no_new_namespace_of_any_kind(execute: Execute) -> None:
    run = await execute(TEXTS["NAMESPACES"])
    assert run.output == "-1 -1\n"


async def test_protections_cannot_be_removed_from_inside(
    execute: Execute, gvisor: OwnDaemon | None
) -> None:
    run = await execute(TEXTS["PROTECTIONS"])
    # gVisor's scheduler ignores the nice value.
    assert run.output == ("-1\nNICE\n" if gvisor else "-1\n")


async def test_a_set_user_id_program_gives_nothing(execute: Execute) -> None:
    run = await execute(TEXTS["SET_USER_ID"])
    assert run.output.split() == ["10001", "10001"]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86 has 32-bit system calls")
async def test_32_bit_system_calls_are_refused(execute: Execute) -> None:
    """`int 0x80` has other numbers of system calls, which a filter must not forget."""
    run = await execute(TEXTS["INT_80"])
    assert (run.ending, run.output) == (Ending.KILLED, "before\n")


async def test_devices_cannot_be_made(execute: Execute) -> None:
    run = await execute(TEXTS["DEVICES"])
    assert run.output == ""
