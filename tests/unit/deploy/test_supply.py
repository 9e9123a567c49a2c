"""`make supply` reports silence as silence, and a release says what it was made of."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deploy.check_supply import Failed, NotRun, judge_audit, run

ROOT = Path(__file__).parents[3]
KNOWN: dict[str, Any] = {
    "dependencies": [{"name": "jinja2", "version": "2.4.1", "vulns": [{"id": "CVE-2014-1402"}]}]
}
SAFE: dict[str, Any] = {"dependencies": [{"name": "redis", "version": "5", "vulns": []}]}
UNKNOWN: dict[str, Any] = {"dependencies": [{"name": "redis", "skip_reason": "not found"}]}


def test_an_advisory_service_that_knows_nothing_finds_nothing_clean() -> None:
    with pytest.raises(NotRun, match="knows no vulnerability"):
        judge_audit({"dependencies": [{"name": "jinja2", "skip_reason": "not found"}]}, SAFE)
    with pytest.raises(NotRun, match="1 packages are unknown"):
        judge_audit(KNOWN, UNKNOWN)
    with pytest.raises(NotRun):
        judge_audit(KNOWN, {})


def test_a_known_vulnerability_fails_and_a_full_answer_passes() -> None:
    with pytest.raises(Failed, match="CVE-2014-1402"):
        judge_audit(KNOWN, KNOWN)
    assert judge_audit(KNOWN, SAFE) == "1 packages"


def test_a_tool_that_is_missing_was_not_run() -> None:
    with pytest.raises(NotRun, match="no-such-tool is not installed"):
        run("no-such-tool")


def test_a_signed_release_names_its_parts(tmp_path: Path) -> None:
    artifact, key = tmp_path / "capuchin.whl", tmp_path / "key"
    artifact.write_bytes(b"wheel")
    digest = "ab" * 32
    written = subprocess.run(
        [
            sys.executable, str(ROOT / "deploy/provenance.py"), str(artifact),
            "--image", f"capuchin:1=sha256:{digest}", "--base", f"python:3.12=sha256:{digest}",
            "--commit", "c" * 40, "--source", "git+https://example.com/x", "--builder", "me",
            "--lock", str(ROOT / "uv.lock"),
        ],
        capture_output=True, check=True,
    ).stdout  # fmt: skip
    statement = json.loads(written)
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert [each["name"] for each in statement["subject"]] == ["capuchin.whl", "capuchin:1"]
    definition = statement["predicate"]["buildDefinition"]
    assert {"uri": "python:3.12", "digest": {"sha256": digest}} in definition[
        "resolvedDependencies"
    ]

    path = tmp_path / "provenance.intoto.json"
    path.write_bytes(written)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-n", "capuchin-release", "-f", str(key), str(path)],
        check=True,
    )
    signers = tmp_path / "signers"
    signers.write_text(f"release@example.com {key.with_suffix('.pub').read_text()}")
    verify = [
        "ssh-keygen", "-Y", "verify", "-f", str(signers), "-I", "release@example.com",
        "-n", "capuchin-release", "-s", f"{path}.sig",
    ]  # fmt: skip
    assert subprocess.run(verify, input=written, check=False).returncode == 0
    assert subprocess.run(verify, input=written + b" ", check=False).returncode != 0


def test_a_release_is_refused_without_a_key_or_with_changes(tmp_path: Path) -> None:
    script = ROOT / "deploy/release.sh"
    copy = tmp_path / "deploy/release.sh"
    copy.parent.mkdir()
    copy.write_bytes(script.read_bytes())
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    done = subprocess.run(["sh", str(copy)], capture_output=True, text=True, check=False)
    assert "commit or stash your changes first" in done.stderr
    copy.parent.joinpath(".gitignore").write_text("*")
    done = subprocess.run(["sh", str(copy)], capture_output=True, text=True, check=False)
    assert "set SIGNING_KEY" in done.stderr
    assert done.returncode == 1
