"""Which AppArmor profile a warm container gets, by what the host says of user namespaces."""

import re
from pathlib import Path

import pytest

from sandbox.docker.apparmor import ADVICE, PROFILE, UNCONFINED, choose_profile

LOCAL = "http+docker://localhost"
LIMIT = "apparmor_restrict_unprivileged_userns"
ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize(
    ("value", "docker_url", "profile"),
    [
        ("1\n", LOCAL, PROFILE),
        ("0\n", LOCAL, UNCONFINED),
        (None, LOCAL, UNCONFINED),
        ("1\n", "https://docker.acme.test:2376", UNCONFINED),
        ("1\n", "http+docker://ssh", UNCONFINED),
    ],
)
def test_ours_is_used_where_this_machine_limits_user_namespaces(
    tmp_path: Path, value: str | None, docker_url: str, profile: str
) -> None:
    folder = tmp_path / "proc/sys/kernel"
    folder.mkdir(parents=True)
    if value is not None:
        (folder / LIMIT).write_text(value)
    assert choose_profile(docker_url, tmp_path) == profile


def test_the_shipped_profile_has_that_name_and_allows_them() -> None:
    assert "deploy/apparmor-capuchin" in ADVICE
    text = (ROOT / "deploy/apparmor-capuchin").read_text()
    assert re.search(rf"^profile {PROFILE} [^{{]*{{\s*userns,\s*}}", text, re.MULTILINE)
    assert LIMIT in (ROOT / "action.yml").read_text()
