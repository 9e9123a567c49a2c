"""What honest code finds when it looks around; `tests/safety` is what hostile code finds."""

import json

from sandbox.program import Ending
from tests.support.docker import Execute


async def test_servers_can_be_started_under_the_names_of_this_machine(execute: Execute) -> None:
    run = await execute("""
import socket
for name in ("localhost", socket.gethostname()):
    server = socket.socket()
    server.bind((name, 0))
    server.listen()
    socket.create_connection((name, server.getsockname()[1]), timeout=10)
    print("connected to", name)
""")
    assert run.output == "connected to localhost\nconnected to sandbox\n"
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
