"""The system calls that Python does not offer, by name."""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Final

CLONE_NEWNS: Final = 0x0002_0000
CLONE_NEWUTS: Final = 0x0400_0000
CLONE_NEWIPC: Final = 0x0800_0000
CLONE_NEWUSER: Final = 0x1000_0000
CLONE_NEWPID: Final = 0x2000_0000
CLONE_NEWNET: Final = 0x4000_0000
CLONE_NEWCGROUP: Final = 0x0200_0000
SIGCHLD: Final = 17

MS_RDONLY: Final = 1
MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_NOEXEC: Final = 8
MS_REMOUNT: Final = 32
MS_BIND: Final = 4096
MS_REC: Final = 16384
MS_PRIVATE: Final = 1 << 18

PR_SET_PDEATHSIG: Final = 1
PR_SET_DUMPABLE: Final = 4
PR_SET_SECCOMP: Final = 22
PR_CAPBSET_DROP: Final = 24
PR_SET_NO_NEW_PRIVS: Final = 38
PR_CAP_AMBIENT: Final = 47
PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
SECCOMP_MODE_FILTER: Final = 2
CAPABILITY_VERSION_3: Final = 0x2008_0522

MACHINE: Final = os.uname().machine
NUMBERS: Final = {"x86_64": {"clone": 56, "capset": 126}, "aarch64": {"clone": 220, "capset": 91}}

_libc: Final = ctypes.CDLL(None, use_errno=True)
# Declared once: converting each argument by hand takes longer than the calls themselves.
_libc.prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
_libc.mount.argtypes = (*[ctypes.c_char_p] * 3, ctypes.c_ulong, ctypes.c_char_p)


class FilterProgram(ctypes.Structure):
    """`struct sock_fprog` of linux/filter.h."""

    _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def check_result(result: int, action: str) -> int:
    """`result`, unless it is -1.

    Raises:
        OSError: what errno says, with what was being done.
    """
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{action}: {os.strerror(error)}")
    return result


def clone(flags: int) -> int:
    """As `os.fork`, into new namespaces; 0 in the child. The caller must have one thread."""
    number = NUMBERS[MACHINE]["clone"]
    arguments = [ctypes.c_long(value) for value in (number, flags | SIGCHLD, 0, 0, 0, 0)]
    return check_result(_libc.syscall(*arguments), "clone")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    done = _libc.mount(source.encode(), target.encode(), kind.encode(), flags, options.encode())
    check_result(done, f"mount {kind} on {target}")


def prctl(option: int, argument: int) -> None:
    check_result(_libc.prctl(option, argument, 0, 0, 0), f"prctl {option}")


def set_dumpable(*, on: bool) -> None:
    """Whether processes of our own user may look into this one, and own its files in /proc."""
    prctl(PR_SET_DUMPABLE, int(on))


def drop_capabilities() -> None:
    """Give up every capability for good, also those of the bounding set."""
    for capability in range(64):
        # The last one of this kernel is followed by EINVAL.
        if _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = struct.pack("<Ii", CAPABILITY_VERSION_3, 0)
    check_result(_libc.syscall(NUMBERS[MACHINE]["capset"], header, bytes(24)), "capset")


def set_no_new_privileges() -> None:
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def install_filter(program: bytes) -> None:
    """Filter every later system call with `program`, 8 bytes an instruction, for good."""
    buffer = ctypes.create_string_buffer(program, len(program))
    packed = FilterProgram(len(program) // 8, ctypes.addressof(buffer))
    done = _libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(packed), 0, 0)
    check_result(done, "seccomp")


def open_datagram_socket() -> int:
    """An internet socket to configure interfaces with."""
    return check_result(_libc.socket(2, 2, 0), "socket")
