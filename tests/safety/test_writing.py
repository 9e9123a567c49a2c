"""Code that writes where it should not: the image, other edits, other tests, git's own files."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.base import PatchRejected
from sandbox.docker import DockerEngine, DockerSandbox
from sandbox.probe import Mode
from tests.contracts.sandbox.test_diffs import FIX
from tests.docker import make_tree

SHOW = "import shop; print(shop.total(3, 1))"
OTHER = "--- /dev/null\n+++ b/other.py\n@@ -0,0 +1 @@\n+OTHER = 1\n"


async def test_no_path_takes_a_write_but_the_three_that_are_its_own(
    sandbox: DockerSandbox, mode: Mode
) -> None:
    run = await sandbox.run_script("""
import os
def try_folder(folder):
    path = os.path.join(folder, ".probe")
    try: os.close(os.open(path, os.O_CREAT | os.O_WRONLY)); os.unlink(path); return True
    except OSError: return False
for folder, folders, names in os.walk("/"):
    if folder in ("/testbed", "/tmp", "/dev/shm"):
        folders[:] = []
        if not try_folder(folder): print("NOT", folder)
        continue
    if folder == "/proc":
        folders[:] = [name for name in folders if not name.isdigit()]
    if try_folder(folder): print("FOLDER", folder)
    for name in names:
        path = os.path.join(folder, name)
        if folder in ("/dev", "/dev/pts") or os.path.islink(path): continue
        if os.path.exists(path) and os.stat(path).st_rdev == os.makedev(1, 3): continue
        try: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK)); print("FILE", path)
        except OSError: pass
""")
    # In a container of its own an execution has these to itself.
    alone = ("FOLDER /dev/mqueue", "FILE /proc/pressure/")
    written = run.output.splitlines()
    assert [w for w in written if mode == "warm" or not w.startswith(alone)] == []


async def test_other_edits_and_other_tests_are_out_of_reach(sandbox: DockerSandbox) -> None:
    """Process 1 of a lane and the program have one uid: only the covered folder is between."""
    assert (await sandbox.run_script(SHOW, diffs=[FIX])).output == "4\n"
    run = await sandbox.run_script(
        """
import ctypes, glob, os
libc = ctypes.CDLL(None, use_errno=True)
libc.umount2(b"/sbx", 2)
for path in ("/sbx", "/sbx/deltas", "/sbx/world", "/opt/tree", "/opt/tree/src/shop"):
    try: open(path + "/planted.py", "w"); print("WROTE", path)
    except OSError: pass
print([p for p in ("/sbx/deltas", "/opt/capuchin/entry.py", "/opt/capuchin/sandbox")
       if os.path.exists(p)] if os.path.isdir("/sbx") else [])
for path in glob.glob("/proc/*/root/sbx/*") + glob.glob("/proc/*/cwd/../sbx/*"):
    print("REACHED", path)
open("src/shop/total.py", "w").write("def total(a, b): return 'planted'")
open("other.py", "w").write("OTHER = 'planted'")
""",
        diffs=[OTHER],
    )
    assert run.output == "[]\n"
    assert (await sandbox.run_script(SHOW + " ", diffs=[FIX])).output == "4\n"
    kept = await sandbox.run_script("import other; print(other.OTHER)", diffs=[OTHER])
    assert kept.output == "1\n"


@pytest.mark.parametrize(
    "path", [".git/hooks/post-checkout", ".git/config", "../outside", "/tmp/outside", "a/../../b"]
)
async def test_a_diff_cannot_write_gits_own_files_or_outside(
    sandbox: DockerSandbox, path: str
) -> None:
    diff = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
    with pytest.raises(PatchRejected):
        await sandbox.run_command(["true"], diffs=[diff])


async def test_filters_hooks_and_configuration_of_the_checkout_run_nowhere(
    sandbox: DockerSandbox,
) -> None:
    evil = "touch /testbed/ran /tmp/ran; cat"
    # What git takes for a repository where it finds it, without a folder called .git.
    config = f"""[core]
bare = false
worktree = /testbed
fsmonitor = {evil}
[filter "evil"]
clean = "{evil}"
smudge = "{evil}"
"""
    planted = {
        ".gitattributes": "*.py filter=evil diff=evil\n",
        "HEAD": "ref: refs/heads/main\n",
        "objects/x": "\n",
        "refs/x": "\n",
        "config": config,
        "hooks/applypatch-msg": evil + "\n",
    }
    plant = "".join(
        f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,{text.count(chr(10))} @@\n"
        + "".join(f"+{line}\n" for line in text.splitlines())
        for name, text in planted.items()
    )
    run = await sandbox.run_command(
        ["sh", "-c", "ls ran /tmp/ran; cat src/shop/total.py"], diffs=[plant, FIX]
    )
    assert "return a + b" in run.output
    assert run.output.count("No such file") == 2


async def test_a_build_step_finds_no_secret(
    engine: DockerEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    if mode == "cold":
        pytest.skip("builds are the same in both")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary-key")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://me:canary-password@pypi.example.org")
    steps = [
        "env > seen; cat /proc/*/environ >> seen 2>/dev/null || true",
        "ls -d /var/run/docker.sock /run/secrets /root/.??* /root/* >> seen 2>/dev/null || true",
        "cat /root/.netrc /root/.pypirc /etc/pip.conf ~/.docker/config.json >> seen 2>&1 || true",
    ]
    image = await engine.prepare(make_tree(tmp_path, {"app.py": ""}), setup=steps, scope="safety")
    async with engine.open(image, run_id="test-secrets") as sandbox:
        seen = (await sandbox.run_command(["cat", "seen"])).output
    assert "PATH=" in seen
    assert not [word for word in ("canary", "docker.sock", "/run/secrets") if word in seen]
