"""The seccomp filter for untrusted code in a warm container.

The container's own profile lets process 1 clone into namespaces and mount. This filter, installed
before the first untrusted byte runs, forbids both again, and also the dangerous calls that the
profile of a cold container forbids.
"""

from __future__ import annotations

import struct
from typing import Final

from sandbox.guest.supervisor import kernel

LOAD: Final = 0x20
JUMP_EQUAL: Final = 0x15
JUMP_AT_LEAST: Final = 0x35
JUMP_ANY_BIT: Final = 0x45
RETURN: Final = 0x06
NUMBER_AT, ARCH_AT, FIRST_ARGUMENT_AT = 0, 4, 16

ALLOW: Final = 0x7FFF_0000
KILL: Final = 0x8000_0000
EPERM, ENOSYS, EAFNOSUPPORT = (0x0005_0000 | number for number in (1, 38, 97))

AUDIT_ARCH: Final = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
X32: Final = 0x4000_0000
CLONE3: Final = 435
CALLS_WITH_RULES: Final = {
    "x86_64": {"clone": 56, "socket": 41},
    "aarch64": {"clone": 220, "socket": 198},
}
FAMILIES: Final = (1, 2, 10)
"""AF_UNIX, AF_INET and AF_INET6; vsock, netlink, packet and others reach beyond the sandbox."""
NAMESPACES: Final = (
    kernel.CLONE_NEWNS
    | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUSER
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWNET
    | kernel.CLONE_NEWCGROUP
)

FORBIDDEN: Final = {
    # name: (x86_64, arm64); None where the architecture has no such call
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "ptrace": (101, 117),
    "kcmp": (312, 272),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "memfd_secret": (447, 447),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "syslog": (103, 116),
    "quotactl": (179, 60),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "vhangup": (153, 58),
    "modify_ldt": (154, None),
    "iopl": (172, None),
    "ioperm": (173, None),
}


def instruction(code: int, value: int, *, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)


def return_instruction(value: int) -> bytes:
    return instruction(RETURN, value)


def match_number(number: int, action: int) -> bytes:
    return instruction(JUMP_EQUAL, number, if_false=1) + return_instruction(action)


def filter_program(machine: str) -> bytes:
    """The filter for `machine`, as `struct sock_filter` after `struct sock_filter`."""
    column = list(AUDIT_ARCH).index(machine)
    calls = CALLS_WITH_RULES[machine]
    parts = [
        instruction(LOAD, ARCH_AT),
        instruction(JUMP_EQUAL, AUDIT_ARCH[machine], if_true=1) + return_instruction(KILL),
        instruction(LOAD, NUMBER_AT),
        instruction(JUMP_AT_LEAST, X32, if_false=1) + return_instruction(ENOSYS),
    ]
    numbers = [both[column] for both in FORBIDDEN.values()]
    parts += [match_number(number, EPERM) for number in numbers if number is not None]
    # Its flags are in memory that a filter cannot read; ENOSYS makes libc fall back to clone.
    parts.append(match_number(CLONE3, ENOSYS))
    first = instruction(LOAD, FIRST_ARGUMENT_AT)
    no_namespace = instruction(JUMP_ANY_BIT, NAMESPACES, if_false=1) + return_instruction(EPERM)
    parts.append(instruction(JUMP_EQUAL, calls["clone"], if_false=4))
    parts.append(first + no_namespace + return_instruction(ALLOW))
    families = b"".join(match_number(family, ALLOW) for family in FAMILIES)
    parts.append(instruction(JUMP_EQUAL, calls["socket"], if_false=2 + len(families) // 8))
    parts.append(first + families + return_instruction(EAFNOSUPPORT))
    return b"".join([*parts, return_instruction(ALLOW)])
