from pathlib import Path

import pytest

from sandbox.docker.mmdebstrap import DEFAULT_MIRROR, debian_mirror, root_command_prefix
from sandbox.errors import SandboxUnavailable

DEB822 = """\
Types: deb
# http://snapshot.debian.org/archive/debian/20250520T000000Z
URIs: https://mirror.example.org/debian
Suites: bookworm
"""


def apt(tmp_path: Path, name: str, text: str) -> Path:
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("sources.list.d/debian.sources", DEB822, "https://mirror.example.org/debian"),
        (
            "sources.list",
            "# deb http://commented.example/debian x\n"
            "deb [arch=amd64 trusted=yes] http://m.example.org/debian/ bookworm main\n",
            "http://m.example.org/debian/",
        ),
        ("sources.list", "deb http://archive.ubuntu.com/ubuntu noble main\n", DEFAULT_MIRROR),
        ("sources.list", "deb cdrom:[Debian]/ bookworm main\n", DEFAULT_MIRROR),
        ("sources.list.d/old.list.save", "deb http://old.example/debian x\n", DEFAULT_MIRROR),
    ],
)
def test_debian_comes_from_the_mirror_of_the_host(
    tmp_path: Path, name: str, text: str, expected: str
) -> None:
    assert debian_mirror(apt(tmp_path, name, text)) == expected


def test_a_host_without_apt_uses_the_default(tmp_path: Path) -> None:
    assert debian_mirror(tmp_path / "none") == DEFAULT_MIRROR


def test_without_mmdebstrap_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="apt-get install mmdebstrap") as told:
        root_command_prefix("capuchin/rootfs:x", path=str(tmp_path))
    assert "No registry answers" in str(told.value)
