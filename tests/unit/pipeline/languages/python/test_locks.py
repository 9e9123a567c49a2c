"""What lock files say, as requirements that any index can serve."""

from pathlib import Path

from pipeline.languages.detect import read_manifests
from pipeline.languages.python.locks import read_lock
from tests.support.docker import make_tree
from tests.support.texts import texts_of

PROJECT = "[project]\nname = 'x'\n"
TEXTS = texts_of(__file__)
POETRY: str = TEXTS["POETRY"]
LOCK: str = TEXTS["LOCK"]


def test_poetry_locks_the_chosen_groups_and_extras_for_this_python(tmp_path: Path) -> None:
    files = {"x.py": "", "pyproject.toml": POETRY, "poetry.lock": LOCK}
    lock = read_lock(read_manifests(make_tree(tmp_path, files)), 11)
    assert lock
    assert lock.requirements.splitlines() == [
        "a==1.2 --hash=sha256:0a",
        "b==2 --hash=sha256:0b",
        "later==5",
        "t @ git+https://e.org/t.git@f00",
    ]


def test_pdm_locks_its_groups_with_hashes(tmp_path: Path) -> None:
    lock = (
        '[[package]]\nname = "a"\nversion = "1"\nmarker = "os_name == \'posix\'"\n'
        'files = [{file = "a.whl", hash = "sha256:0a"}, {url = "u", hash = "x; rm -rf"}]\n'
        '[[package]]\nname = "b"\ngit = "https://e.org/b"\nrevision = "f00"\nfiles = []\n'
        '[[package]]\nname = "c"\nversion = "2"\ngroups = ["docs"]\n'
    )
    files = {"a.py": "", "pyproject.toml": PROJECT, "pdm.lock": lock}
    found = read_lock(read_manifests(make_tree(tmp_path, files)), 11)
    assert found
    assert found.requirements == ("a==1 --hash=sha256:0a\nb @ git+https://e.org/b@f00\n")


def test_uv_exports_its_own_lock_with_the_group_for_tests(tmp_path: Path) -> None:
    project = PROJECT + "[dependency-groups]\ndev = []\ntest = []\n[tool.uv]\npackage = false\n"
    files = {"a.py": "", "pyproject.toml": project, "uv.lock": ""}
    found = read_lock(read_manifests(make_tree(tmp_path, files)), 11)
    assert found
    assert found.uv_export[-2:] == ("--group", "test")
    assert not found.package


def test_a_package_of_another_index_is_locked_by_its_hashes_alone(tmp_path: Path) -> None:
    source = '[package.source]\ntype = "legacy"\nurl = "https://pypi.shop.example/simple"\n'
    lock = (
        f'[[package]]\nname = "a"\nversion = "1"\nfiles = []\n{source}'
        '[[package]]\nname = "t"\nversion = "2"\n'
        f'files = [{{file = "t.whl", hash = "sha256:0a"}}]\n{source}'
    )
    files = {"x.py": "", "pyproject.toml": POETRY, "poetry.lock": lock}
    found = read_lock(read_manifests(make_tree(tmp_path, files)), 11)
    assert found
    assert found.requirements == "t==2 --hash=sha256:0a\n"


PIPFILE_LOCK = """{
"_meta": {"sources": [{"name": "pypi", "url": "https://pypi.org/simple"},
                      {"name": "bakery", "url": "https://pypi.bakery.example/simple"}]},
"default": {"six": {"version": "==1.16.0", "hashes": ["sha256:0a"], "index": "pypi"},
            "till": {"version": "==2", "index": "bakery"},
            "oven": {"git": "https://e.org/oven", "ref": "f00"}},
"develop": {"tomli": {"version": "==2.0.1", "hashes": [], "markers": "python_version < '3.11'"}}
}"""
PYLOCK: str = TEXTS["PYLOCK"]


def test_pipfile_lock_and_pylock_are_read_without_a_manifest_beside_them(tmp_path: Path) -> None:
    expected = {
        "Pipfile.lock": ["six==1.16.0 --hash=sha256:0a", "oven @ git+https://e.org/oven@f00"],
        "pylock.toml": ["six==1.16.0 --hash=sha256:0a", "pytest==8.0.0"],
    }
    for name, text in {"Pipfile.lock": PIPFILE_LOCK, "pylock.toml": PYLOCK}.items():
        found = read_lock(read_manifests(make_tree(tmp_path / name, {"x.py": "", name: text})), 11)
        assert found
        assert (found.package, found.requirements.splitlines()) == (False, expected[name])
