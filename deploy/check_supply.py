"""Checks what we ship and what we depend on: `make supply`.

A line for each check: `ok`, `FAILED`, or `NOT RUN` with the reason. A check that could not be made
is never reported as passed. Exits 1 after a failure. Writes build/sbom.cdx.json.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
BUILD: Final = ROOT / "build"
REQUIREMENTS: Final = BUILD / "requirements.txt"
SBOM: Final = BUILD / "sbom.cdx.json"
TOOLS: Final = Path(sys.executable).parent
CANARY: Final = f"jinja2==2.4.1 --hash=sha256:{'0' * 64}\n"
"""A release with published vulnerabilities: a service that does not know them knows nothing."""
SECONDS: Final = 120


class NotRun(Exception):
    """The check could not be made; `str(error)` says why."""


class Failed(Exception):
    """The check found something; `str(error)` is what the tool printed."""


def run(*argv: str, accepted: tuple[int, ...] = (0,)) -> str:
    """Run a tool and return what it printed.

    Raises:
        NotRun: the tool is not installed or does not end.
        Failed: it exits with another code.
    """
    own = TOOLS / argv[0]
    program = str(own) if own.is_file() else shutil.which(argv[0])
    if program is None:
        raise NotRun(f"{argv[0]} is not installed")
    try:
        done = subprocess.run(
            [program, *argv[1:]], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise NotRun(f"{argv[0]} did not end within {SECONDS} s") from None
    if done.returncode not in accepted:
        raise Failed(done.stdout + done.stderr)
    return done.stdout


def list_files(*patterns: str) -> list[str]:
    return run("git", "ls-files", "-z", "--", *patterns).split("\0")[:-1]


def check_shell() -> str:
    scripts = [*list_files("*.sh"), ".ci/run"]
    run("shellcheck", *scripts)
    return f"{len(scripts)} scripts"


def check_dockerfiles() -> str:
    files = list_files("*Dockerfile")
    # An image of Debian gets its security updates by not pinning packages; the sandbox's image
    # starts as root and each execution as an ordinary user; names of users are those we make.
    ignored = [f"--ignore={rule}" for rule in ("DL3008", "DL3002", "DL3066", "DL4006")]
    run("hadolint", "--no-color", *ignored, *files)
    return f"{len(files)} files"


def check_workflows() -> str:
    files = list_files(".github/workflows/*.y*ml", "action.y*ml")
    if not files:
        return "no workflow ships"
    run("zizmor", "--offline", "--no-progress", *files)
    return f"{len(files)} files"


def check_secrets() -> str:
    run("gitleaks", "git", "--no-banner", "--redact", ".")
    return "the whole history"


def write_sbom() -> str:
    """CycloneDX, of what the container holds: hashes and versions come from uv.lock."""
    BUILD.mkdir(exist_ok=True)
    uv = "uv" if shutil.which("uv") else str(BUILD / "uv/bin/uv")
    run(
        uv, "export", "--quiet", "--frozen", "--no-dev", "--extra", "kubernetes",
        "--extra", "s3", "--extra", "traces", "--no-emit-project",
        "--output-file", str(REQUIREMENTS),
    )  # fmt: skip
    run(
        "cyclonedx-py", "requirements", str(REQUIREMENTS), "--output-reproducible",
        "--pyproject", str(ROOT / "pyproject.toml"), "--of", "JSON", "-o", str(SBOM),
    )  # fmt: skip
    components = json.loads(SBOM.read_text(encoding="utf-8"))["components"]
    return f"{len(components)} components in {SBOM.relative_to(ROOT)}"


def check_vulnerabilities() -> str:
    canary = BUILD / "canary.txt"
    canary.write_text(CANARY, encoding="utf-8")
    return judge_audit(audit(canary), audit(REQUIREMENTS))


def audit(requirements: Path) -> dict[str, Any]:
    """pip-audit's own report. Its exit code does not tell an unknown package from a safe one."""
    try:
        text = run(
            "pip-audit", "--disable-pip", "--require-hashes", "-r", str(requirements), "-f", "json",
            "--timeout", "10", "--progress-spinner", "off", accepted=(0, 1),
        )  # fmt: skip
        return json.loads(text)
    except (Failed, ValueError):
        raise NotRun("the advisory service does not answer") from None


def judge_audit(canary: dict[str, Any], report: dict[str, Any]) -> str:
    """Raises `NotRun` unless the service knows the canary's vulnerabilities and every package."""
    packages: list[dict[str, Any]] = report.get("dependencies", [])
    if not any(package.get("vulns") for package in canary.get("dependencies", [])):
        raise NotRun("the advisory service answers, but knows no vulnerability of jinja2 2.4.1")
    found = [f"{p['name']} {p['version']}: {v['id']}" for p in packages for v in p.get("vulns", [])]
    if found:
        raise Failed("\n".join(found))
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    if skipped or not packages:
        raise NotRun(f"{len(skipped)} packages are unknown to the advisory service")
    return f"{len(packages)} packages"


CHECKS: Final[dict[str, Callable[[], str]]] = {
    "shellcheck": check_shell,
    "hadolint": check_dockerfiles,
    "zizmor": check_workflows,
    "gitleaks": check_secrets,
    "SBOM": write_sbom,
    "pip-audit": check_vulnerabilities,
}


def main() -> int:
    failed = False
    for name, check in CHECKS.items():
        try:
            line = f"ok: {check()}"
        except NotRun as why:
            line = f"NOT RUN: {why}"
        except Failed as found:
            failed, line = True, f"FAILED\n{found}"
        sys.stdout.write(f"supply: {name:<11} {line}\n")
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
