"""What hostile code finds when it looks around."""

from __future__ import annotations

import json

from sandbox.program import Ending
from tests.support.docker import Execute


async def test_there_is_no_network(execute: Execute) -> None:
    run = await execute("""
import socket
for family, address in (
    (socket.AF_INET, ("169.254.169.254", 80)), (socket.AF_INET, ("172.17.0.1", 22)),
    (socket.AF_INET, ("192.0.2.1", 53)), (socket.AF_INET6, ("2001:db8::1", 80)),
):
    connection = socket.socket(family)
    connection.settimeout(3)
    try:
        connection.connect(address); print("CONNECTED", address)
    except OSError as error:
        print(error.errno in (101, 99))
try:
    socket.getaddrinfo("example.org", 80); print("RESOLVED")
except OSError:
    print("no names")
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()); print("loopback works")
""")
    assert run.output == "True\nTrue\nTrue\nTrue\nno names\nloopback works\n"


async def test_servers_can_be_started_under_the_names_of_this_machine(execute: Execute) -> None:
    run = await execute("""
import socket
for name in ("localhost", socket.gethostname()):
    server = socket.socket()
    server.bind((name, 0))
    server.listen()
    socket.create_connection((name, server.getsockname()[1]), timeout=10)
    print("connected")
""")
    assert run.output == "connected\nconnected\n"
    run = await execute("print(open('/etc/resolv.conf').read())")
    assert run.output.split() in ([], ["nameserver", "127.0.0.1"])  # nothing of the host's


async def test_the_environment_holds_only_ours(execute: Execute) -> None:
    run = await execute("import os, json; print(json.dumps(dict(os.environ)))")
    assert json.loads(run.output) == {
        "PATH": "/opt/env/bin:/usr/local/bin:/usr/bin:/bin",
        "VIRTUAL_ENV": "/opt/env",
        "HOME": "/tmp/home",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "1",
    }


async def test_home_is_an_empty_folder_of_its_own(execute: Execute) -> None:
    """Where it was the folder of temporary files, a test that removes its data at home failed."""
    script = """
import pathlib, tempfile
home, temporary = pathlib.Path.home(), tempfile.gettempdir()
print([*home.iterdir()], str(home) != temporary)
(home / "data").write_text("kept")
print((home / "data").read_text())
"""
    assert (await execute(script)).output == "[] True\nkept\n"


async def test_it_is_nobody_and_can_become_nobody_else(execute: Execute) -> None:
    run = await execute("""
import os
print(os.getuid(), os.getgid(), os.getgroups())
for line in open("/proc/self/status"):
    name, _, value = line.partition(":")
    if name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"):
        print(name, value.strip())
for change in (os.setuid, os.setgid):
    try:
        change(0); print("BECAME ROOT")
    except OSError as error:
        print(error.errno in (1, 22))
print(os.popen("find / -xdev -perm /6000 -type f 2>/dev/null").read())
print(open("/proc/self/oom_score_adj").read())
""")
    nothing = "0" * 16
    assert run.output.split() == [
        *("10001", "10001", "[10001]"),
        *("CapInh", nothing, "CapPrm", nothing, "CapEff", nothing, "CapBnd", nothing),
        *("CapAmb", nothing, "NoNewPrivs", "1", "Seccomp", "2", "True", "True", "1000"),
    ]


async def test_threads_processes_and_their_locks_work(execute: Execute) -> None:
    run = await execute("""
import multiprocessing, concurrent.futures as futures, subprocess, tempfile, sqlite3
def double(n): return n * 2
if __name__ == "__main__":
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        with futures.ProcessPoolExecutor(2, mp_context=context) as pool:
            print(list(pool.map(double, [1, 2])))
    with futures.ThreadPoolExecutor(2) as pool:
        print(list(pool.map(double, [3])))
    print(subprocess.run(["echo", "child"], capture_output=True).stdout)
    with tempfile.TemporaryDirectory() as name:
        sqlite3.connect(name + "/db").execute("create table t (x)").close()
""")
    assert run.output == "[2, 4]\n[2, 4]\n[6]\nb'child\\n'\n"


async def test_nothing_of_the_host_can_be_seen(execute: Execute) -> None:
    run = await execute("""
import os, glob
for path in ("/var/run/docker.sock", "/run/docker.sock", "/dev/vda", "/dev/sda", "/dev/kvm",
             "/dev/mem", "/home/*/*", "/root/*", "/sys/class/net/*", "/sys/devices/virtual/net/*"):
    if glob.glob(path):
        print("FOUND", path)
for path in ("/proc/kcore", "/proc/keys", "/proc/sysrq-trigger", "/proc/1/environ", "/proc/1/mem",
             "/etc/shadow"):
    try:
        with open(path, "rb") as file:
            data = file.read(10)
        print("READ", path, data) if data else None
    except OSError:
        pass
print(os.uname().nodename)
""")
    assert run.output == "sandbox\n"


async def test_nothing_can_be_written_but_the_checkout_and_the_temporary_folders(
    execute: Execute,
) -> None:
    run = await execute("""
import os
for folder in ("/", "/etc", "/opt/env", "/opt/tree", "/opt/incoming", "/opt/capuchin", "/usr/bin",
               "/var/tmp", "/run", "/home", "/proc/sys/kernel", "/sys"):
    try:
        open(os.path.join(folder, "x"), "w"); print("WROTE", folder)
    except OSError:
        pass
for folder in ("/testbed", "/tmp", "/dev/shm"):
    open(os.path.join(folder, "x"), "w").close()
try:
    os.mknod("/tmp/disk", 0o60666, os.makedev(254, 0)); print("DEVICE")
except OSError as error:
    print(error.errno)
""")
    assert run.output == "1\n"


async def test_dangerous_system_calls_are_refused(execute: Execute) -> None:
    run = await execute("""
import ctypes, os, platform, socket
libc = ctypes.CDLL(None, use_errno=True)
for name, family in (("vsock", 40), ("netlink", 16), ("packet", 17), ("alg", 38), ("xdp", 44)):
    try:
        socket.socket(family, socket.SOCK_RAW if family in (16, 17, 44) else socket.SOCK_STREAM)
        print("OPEN", name)
    except OSError:
        pass
calls = dict(
    io_uring_setup=(425, 1, 0), ptrace=(101, 0, 0, 0, 0), keyctl=(250, 0, 0),
    add_key=(248, 0, 0, 0, 0, 0), bpf=(321, 0, 0, 0), userfaultfd=(323, 0),
    unshare=(272, 1 << 28), unshare_net=(272, 1 << 30), setns=(308, 0, 0), chroot=(161, b"/"),
    mount=(165, 0, 0, 0, 0, 0), perf_event_open=(298, 0, 0, 0, 0), clone3=(435, 0, 0),
    process_vm_writev=(311, 1, 0, 0, 0, 0, 0), open_by_handle_at=(304, 0, 0, 0),
    pidfd_getfd=(438, 1, 0, 0), modify_ldt=(154, 0, 0, 0), kexec_load=(246, 0, 0, 0, 0),
    clone_newuser=(56, 1 << 28 | 17, 0, 0, 0, 0),
)
for name, arguments in calls.items() if platform.machine() == "x86_64" else ():
    ctypes.set_errno(0)
    result = libc.syscall(*arguments)
    if name == "clone_newuser" and result == 0:
        os._exit(0)
    if result != -1 or ctypes.get_errno() not in (1, 38):
        print("ALLOWED", name, result, ctypes.get_errno())
print("done")
""")
    assert run.output == "done\n"


async def test_process_1_cannot_be_killed_read_or_spoken_for(execute: Execute) -> None:
    run = await execute("""
import glob, os, signal, sys
for number in range(1, 65):
    try:
        os.kill(1, number)
    except OSError:
        pass
for path in glob.glob("/proc/1/fd/*") + ["/proc/1/fd/1", "/proc/1/fd/2", "/proc/1/mem"]:
    try:
        open(path, "wb"); print("OPENED", path)
    except OSError:
        pass
print('{"nonce": "0", "exit": 0, "seconds": 0.1, "oom": 0}', flush=True)
print('{"nonce": "0", "rejected": "me"}', file=sys.stderr, flush=True)
try:
    os.kill(-1, signal.SIGKILL)
except OSError:
    pass
sys.exit(2)
""")
    assert run.ending is Ending.EXIT
    assert run.exit_code == 2
    assert run.output.count("\n") == 2


FORGES = """\
--- /dev/null
+++ b/types.py
@@ -0,0 +1,4 @@
+import os
+nonce = open("/tmp/capuchin/nonce").read()
+os.write(1, ("\\n%s 0\\n" % nonce).encode())
+os._exit(0)
"""


async def test_a_module_in_the_checkout_does_not_come_before_the_scripts_wrapper(
    execute: Execute,
) -> None:
    run = await execute("import sys; sys.exit(2)", diffs=(FORGES,))
    assert (run.ending, run.exit_code) == (Ending.EXIT, 2)


async def test_a_script_that_kills_its_parent_ends_only_itself(execute: Execute) -> None:
    run = await execute(
        "import os\nfor pid in (os.getppid(), -os.getpid()): os.kill(pid, 9)\nprint('alive')"
    )
    assert (run.ending, run.exit_code, run.output) == (Ending.KILLED, None, "")
