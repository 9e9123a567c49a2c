"""What a program run in the sandbox sees, and what we hear of it."""

import time

import pytest

from pipeline.concurrency import gather_all
from sandbox.base import Sandbox
from sandbox.execution.session import SandboxSession
from sandbox.program import NO_ENV, Ending, Program, python_script, repeat_environment
from tests.support.docker import PACKAGE, PACKAGE_FIX, Execute


@pytest.mark.parametrize("code", [0, 1, 2, 137])
async def test_the_exit_code_of_a_script_is_reported(execute: Execute, code: int) -> None:
    begun = time.monotonic()
    run = await execute(f"import sys; print('ran'); sys.exit({code})")
    assert (run.exit_code, run.ending, run.output) == (code, Ending.EXIT, "ran\n")
    assert run.passed == (code == 0)
    assert 0 < run.seconds <= time.monotonic() - begun, "the clock of the host"


async def test_it_is_a_sandbox(sandbox: Sandbox) -> None:
    assert (await sandbox.run(Program(["true"]))).passed


async def test_a_script_runs_in_the_root_of_the_checkout_and_finds_the_package(
    execute: Execute,
) -> None:
    run = await execute("""
import os, shop, tests.test_total
print(os.getcwd(), shop.__file__, os.path.isfile("src/shop/run.sh"))
print(os.readlink("src/shop/link.py"), os.access("src/shop/run.sh", os.X_OK))
""")
    expected = "/testbed /testbed/src/shop/__init__.py True\ntotal.py True\n"
    assert run.output == expected


async def test_standard_output_and_error_come_in_the_order_of_writing(execute: Execute) -> None:
    run = await execute("""
import sys
for n in range(3):
    print("out", n); print("err", n, file=sys.stderr)
""")
    assert run.output == "out 0\nerr 0\nout 1\nerr 1\nout 2\nerr 2\n"


async def test_a_command_runs_the_tests_of_the_repository(sandbox: SandboxSession) -> None:
    run = await sandbox.run(Program(["python", "-m", "pytest", "-q", "tests"]))
    assert run.exit_code == 1
    assert "assert -1 == 3" in run.output


async def test_a_program_that_is_not_there_ends_as_in_a_shell(sandbox: SandboxSession) -> None:
    run = await sandbox.run(Program(["no-such-program"]))
    assert run.exit_code == 127
    assert "no-such-program" in run.output


async def test_arguments_are_never_read_by_a_shell(sandbox: SandboxSession) -> None:
    run = await sandbox.run(Program(["echo", "$HOME; exit 3", "`id`", ""]))
    assert run.output == "$HOME; exit 3 `id` \n"


async def test_no_program_at_all_is_the_callers_mistake(sandbox: SandboxSession) -> None:
    with pytest.raises(ValueError, match="no program"):
        await sandbox.run(Program([]))


async def test_nothing_of_one_run_is_seen_by_the_next(execute: Execute) -> None:
    await execute("""
open("/tmp/left", "w").close(); open("left", "w").close(); open("/dev/shm/left", "w").close()
open("src/shop/total.py", "w").write("broken")
""")
    run = await execute("""
import os, shop
print([p for p in ("/tmp/left", "left", "/dev/shm/left") if os.path.exists(p)], shop.total(3, 1))
""")
    assert run.output == "[] 2\n"


async def test_no_file_of_the_checkout_is_as_young_as_an_edit(execute: Execute) -> None:
    """Seen under load: for an edit of the same size in the second of the unpacking, Python took the
    compiled code of the unedited file."""
    run = await execute("""
import pathlib, time
times = [path.stat().st_mtime for path in pathlib.Path().rglob("*.py")]
print(bool(times) and time.time() - max(times) > 86400)
""")
    assert run.output == "True\n"


async def test_the_base_stays_bit_identical_whatever_is_done_to_it(execute: Execute) -> None:
    digest = """
import hashlib, os
found = hashlib.sha256()
for folder, folders, names in os.walk("."):
    folders.sort()
    for name in sorted(names) + folders:
        path = os.path.join(folder, name)
        facts = os.lstat(path)
        data = open(path, "rb").read() if name in names else b""
        found.update(repr((path, facts.st_mode, facts.st_mtime_ns, data)).encode())
print(found.hexdigest(), "")
"""
    before = await execute(digest)
    ruin = await execute("""
import os, shutil
for name in os.listdir("."):
    if os.path.isdir(name): shutil.rmtree(name)
    else: open(name, "a").write("x"); os.chmod(name, 0o777); os.utime(name, (1, 1))
open("new", "w").write("x")
print(sorted(os.listdir(".")))
""")
    assert "'new'" in ruin.output
    after = await execute(digest + "# once more\n")
    assert before.passed
    assert after.output == before.output


async def test_compiled_files_of_the_image_are_still_valid(sandbox: SandboxSession) -> None:
    run = await sandbox.run(Program(["python", "-v", "-c", "import shop.total"]))
    assert "matches /testbed/src/shop/total.py" in run.output
    assert "wrote '/testbed" not in run.output


async def test_pytest_imports_nothing_that_is_not_compiled(execute: Execute) -> None:
    look = (
        "import os, sys, pytest; pytest.main(['--version'])\n"
        "specs = [getattr(module, '__spec__', None) for module in list(sys.modules.values())]\n"
        "files = [(spec.origin, spec.cached) for spec in specs if spec and spec.cached]\n"
        "print([origin for origin, cached in files if not os.path.exists(cached)])\n"
    )
    run = await execute(look)
    assert run.output.splitlines()[-1] == "[]"


async def test_output_that_is_not_text_is_replaced(execute: Execute) -> None:
    run = await execute(r"import os; os.write(1, b'a\xff\xfeb\x00\xc3')")
    assert run.output == "a��b\0�"


async def test_the_middle_of_long_output_is_cut_with_a_sentence(sandbox: SandboxSession) -> None:
    argv = ["python", "-c", "print('head' + 'x' * 9000 + 'tail')"]
    run = await sandbox.run(Program(argv, output_bytes=200))
    assert run.exit_code == 0
    assert run.output.startswith("headxxx")
    assert run.output.endswith("xxxtail\n")
    assert "[... 8809 bytes of output left out here ...]" in run.output


async def test_processor_time_and_memory_of_all_processes_are_reported(execute: Execute) -> None:
    """Those that the program did not wait for, too."""
    burn = "import time; held = b'x' * 60_000_000\nwhile time.process_time() < 0.4: pass\n"
    run = await execute(f"""
import subprocess, sys, time
left = subprocess.Popen([sys.executable, "-c", {burn!r} +
    "print(1, flush=True); time.sleep(60)"], stdout=subprocess.PIPE)
left.stdout.readline()
""")
    assert run.exit_code == 0
    assert run.cpu_seconds is not None
    assert run.peak_memory_mb is not None
    assert 0.35 < run.cpu_seconds < 30, "in seconds"
    assert 57 < run.peak_memory_mb < 200
    idle = await execute("pass")
    assert idle.cpu_seconds is not None
    assert idle.cpu_seconds < run.cpu_seconds


async def test_the_same_script_on_the_same_diffs_runs_once(execute: Execute) -> None:
    script = "import time; print(time.time_ns())"
    first, second = await gather_all(execute(script) for _ in range(2))
    third = await execute(script)
    other = await execute(script + " ")
    assert first.output == second.output == third.output != other.output


async def test_another_environment_is_another_run_and_reaches_the_program(
    sandbox: SandboxSession,
) -> None:
    script = "import os, time; print(os.environ['PYTHONHASHSEED'], time.time_ns())"
    first, again, other = await gather_all(
        sandbox.run(python_script(script, env=env))
        for env in (NO_ENV, NO_ENV, repeat_environment(2))
    )
    assert first.output == again.output
    assert (first.output[0], other.output[0]) == ("0", "2")
    said = await sandbox.run(
        Program(
            ["python", "-c", "import os; print(os.environ['COLOUR'], os.environ['HOME'])"],
            env={"COLOUR": "pale blue; id"},
        )
    )
    assert said.output == "pale blue; id /tmp/home\n"


async def test_commands_run_every_time(sandbox: SandboxSession) -> None:
    argv = ["python", "-c", "import time; print(time.time_ns())"]
    first = await sandbox.run(Program(argv))
    second = await sandbox.run(Program(argv))
    assert first.output != second.output


async def test_a_limit_of_nothing_is_refused(execute: Execute) -> None:
    with pytest.raises(ValueError, match="greater than 0"):
        await execute("print()", seconds=0)


async def test_a_checked_out_folder_can_be_renamed(execute: Execute) -> None:
    """In a warm sandbox the checkout is an overlay, whose own folders rename(2) refuses to move
    (EXDEV); who fails over that runs again, on a copy."""
    run = await execute("""
import os, shop
os.rename("src/shop", "src/moved")
print(shop.total(3, 1), os.path.exists("src/shop"), "total.py" in os.listdir("src/moved"))
open("src/moved/total.py", "w").write("changed")
""", diffs=[PACKAGE_FIX])  # fmt: skip
    assert (run.exit_code, run.output) == (0, "4 False True\n")
    assert (await execute("print(open('src/shop/total.py').read())")).output == (
        PACKAGE["src/shop/total.py"] + "\n"
    )


async def test_a_checked_out_folder_can_be_moved_as_between_devices(execute: Execute) -> None:
    run = await execute("""
import os, shutil
shutil.move("src/shop", "src/moved")
print(os.path.exists("src/shop"), "total.py" in os.listdir("src/moved"))
""")
    assert run.output == "False True\n"


async def test_a_copy_does_not_mend_what_is_on_two_disks_indeed(execute: Execute) -> None:
    run = await execute("import os; os.rename('src/shop', '/tmp/shop')")
    assert run.exit_code == 1
    assert "cross-device link" in run.output
