"""Code that tries to gain rights, or to make system calls that it must not make."""

import json
import platform

import pytest

from sandbox.guest.supervisor.seccomp import FORBIDDEN
from sandbox.program import Ending
from tests.support.docker import Execute
from tests.support.own_docker_daemon import OwnDaemon

ATTEMPT = """
import ctypes, errno, os, platform
libc = ctypes.CDLL(None, use_errno=True)
calls = {calls}
for name, number in calls.items():
    ctypes.set_errno(0)
    result = libc.syscall(number, 0, 0, 0, 0, 0, 0)
    if result != -1 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS):
        print("ALLOWED", name, result, errno.errorcode.get(ctypes.get_errno()))
print("done")
"""


async def test_no_dangerous_system_call_gets_through(execute: Execute) -> None:
    """Without pointers: a call that the filter does not refuse answers EINVAL or EFAULT."""
    column = ["x86_64", "aarch64"].index(platform.machine())
    calls = {name: both[column] for name, both in FORBIDDEN.items() if both[column] is not None}
    run = await execute(ATTEMPT.format(calls=json.dumps(calls)))
    assert run.output == "done\n"


async def test_it_has_no_right_that_it_could_use_or_get_back(execute: Execute) -> None:
    run = await execute("""
import os
print(os.getresuid(), os.getresgid(), os.getgroups())
names = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(*(f"{name} {int(fields[name], 16)}" for name in names))
print(open("/proc/self/oom_score_adj").read(), end="")
""")
    assert run.output == (
        "(10001, 10001, 10001) (10001, 10001, 10001) [10001]\n"
        "CapInh 0 CapPrm 0 CapEff 0 CapBnd 0 CapAmb 0 NoNewPrivs 1 Seccomp 2\n"
        "1000\n"
    )


async def test_no_new_namespace_of_any_kind(execute: Execute) -> None:
    run = await execute("""
import ctypes, os, platform
libc = ctypes.CDLL(None, use_errno=True)
clone, unshare = {"x86_64": (56, 272), "aarch64": (220, 97)}[platform.machine()]
for bit in (17, 25, 26, 27, 28, 29, 30):
    ctypes.set_errno(0)
    pid = libc.syscall(clone, (1 << bit) | 17, 0, 0, 0, 0)
    if pid == 0: os._exit(0)
    if pid != -1: print("CLONED", bit)
    if libc.syscall(unshare, 1 << bit, 0, 0, 0, 0) != -1: print("UNSHARED", bit)
if libc.syscall(435, 0, 0) != -1 or ctypes.get_errno() != 38: print("CLONE3")
try: os.mkdir("/tmp/m")
except OSError: pass
print(libc.mount(b"tmpfs", b"/tmp/m", b"tmpfs", 0, None), libc.umount2(b"/tmp", 2))
""")
    assert run.output == "-1 -1\n"


async def test_protections_cannot_be_removed_from_inside(
    execute: Execute, gvisor: OwnDaemon | None
) -> None:
    run = await execute("""
import ctypes, os, resource
libc = ctypes.CDLL(None, use_errno=True)
print(libc.prctl(38, 0, 0, 0, 0))  # no_new_privs off
for change in (os.setuid, os.setgid, os.seteuid):
    try: change(0); print("BECAME ROOT")
    except OSError: pass
for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE):
    soft, hard = resource.getrlimit(kind)
    try: resource.setrlimit(kind, (hard + 1, hard + 1)); print("RAISED", kind)
    except (OSError, ValueError): pass
try: os.chroot("/tmp"); print("CHROOT")
except OSError: pass
try: os.nice(-5); print("NICE")
except OSError: pass
""")
    # gVisor's scheduler ignores the nice value.
    assert run.output == ("-1\nNICE\n" if gvisor else "-1\n")


async def test_a_set_user_id_program_gives_nothing(execute: Execute) -> None:
    run = await execute("""
import os, shutil, subprocess
shutil.copy("/bin/sh", "/tmp/sh"); os.chmod("/tmp/sh", 0o6755)
print(subprocess.run(["/tmp/sh", "-pc", "id -u; id -ru"], capture_output=True, text=True).stdout)
print(subprocess.run("find / -xdev -perm /6000 -type f 2>/dev/null", shell=True,
                     capture_output=True, text=True).stdout)
""")
    assert run.output.split() == ["10001", "10001"]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86 has 32-bit system calls")
async def test_32_bit_system_calls_are_refused(execute: Execute) -> None:
    """`int 0x80` has other numbers of system calls, which a filter must not forget."""
    run = await execute(r"""
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20 (getpid); int 0x80; ret
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
print("before", flush=True)
print("got", ctypes.CFUNCTYPE(ctypes.c_int)(address)())
""")
    assert (run.ending, run.output) == (Ending.KILLED, "before\n")


async def test_devices_cannot_be_made(execute: Execute) -> None:
    run = await execute("""
import os
for kind, name in ((0o60666, "block"), (0o20666, "character")):
    for place in ("/tmp", "/testbed", "/dev/shm"):
        try: os.mknod(f"{place}/{name}", kind, os.makedev(1, 3)); print("MADE", place, name)
        except OSError: pass
""")
    assert run.output == ""
