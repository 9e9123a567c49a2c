"""The filter of a world, run on system calls as the kernel would."""

import errno
import json
import struct

import pytest

from sandbox.docker.container import seccomp_profile, warm_profile
from sandbox.guest.supervisor import seccomp as walls
from sandbox.guest.supervisor.kernel import CLONE_NEWNS, CLONE_NEWUSER, SIGCHLD

MACHINES = ["x86_64", "aarch64"]


def verdict(machine: str, number: int, argument: int = 0, *, arch: int | None = None) -> int:
    """What the filter answers (linux/filter.h, as far as ours goes)."""
    code = walls.filter_program(machine)
    data = struct.pack("<IIQQ", number, arch or walls.AUDIT_ARCH[machine], 0, argument)
    program = [struct.unpack_from("<HBBI", code, at) for at in range(0, len(code), 8)]
    register, at = 0, 0
    while True:
        operation, if_true, if_false, value = program[at]
        if operation == walls.RETURN:
            return value
        if operation == walls.LOAD:
            register = struct.unpack_from("<I", data, value)[0]
            at += 1
            continue
        holds = {
            walls.JUMP_EQUAL: register == value,
            walls.JUMP_AT_LEAST: register >= value,
            walls.JUMP_ANY_BIT: bool(register & value),
        }[operation]
        at += 1 + (if_true if holds else if_false)


def refused(with_error: int) -> int:
    return 0x0005_0000 | with_error


@pytest.mark.parametrize("machine", MACHINES)
def test_every_forbidden_call_is_refused(machine: str) -> None:
    for both in walls.FORBIDDEN.values():
        number = both[MACHINES.index(machine)]
        if number is not None:
            assert verdict(machine, number) == refused(errno.EPERM)
    assert verdict(machine, walls.CLONE3) == refused(errno.ENOSYS)


@pytest.mark.parametrize("machine", MACHINES)
def test_processes_may_be_made_but_no_namespaces(machine: str) -> None:
    clone = walls.CALLS_WITH_RULES[machine]["clone"]
    assert verdict(machine, clone, SIGCHLD) == walls.ALLOW
    for flag in (CLONE_NEWUSER, CLONE_NEWNS):
        assert verdict(machine, clone, SIGCHLD | flag) == refused(errno.EPERM)


@pytest.mark.parametrize("machine", MACHINES)
def test_only_three_families_of_sockets_open(machine: str) -> None:
    call = walls.CALLS_WITH_RULES[machine]["socket"]
    opened = [family for family in range(64) if verdict(machine, call, family) == walls.ALLOW]
    assert opened == [1, 2, 10]
    assert verdict(machine, call, 40) == refused(errno.EAFNOSUPPORT)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_rest_is_left_to_the_containers_own_profile(machine: str) -> None:
    assert verdict(machine, 0) == walls.ALLOW


def test_other_doors_into_the_kernel_are_shut() -> None:
    assert verdict("x86_64", 20, arch=0x4000_0003) == walls.KILL
    assert verdict("x86_64", 0x4000_0000 | 39) == refused(errno.ENOSYS)


def test_the_profile_of_a_lane_adds_two_calls_and_takes_none_away() -> None:
    def names(profile: str) -> set[str]:
        rules = json.loads(profile)["syscalls"]
        return {name for rule in rules if not rule.get("args") for name in rule["names"]}

    plain, lane = seccomp_profile(), warm_profile(seccomp_profile())
    assert names(lane) - names(plain) == {"clone", "mount"}
    assert names(plain) <= names(lane)
    assert json.loads(lane)["defaultAction"] == "SCMP_ACT_ERRNO"
    assert {"clone", "mount"} & set(walls.FORBIDDEN) == {"mount"}
