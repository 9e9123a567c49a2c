"""A large real package: the source release of SymPy 1.12, as its makers published it, and edits."""

import difflib
import hashlib
import io
import tarfile
import urllib.request
from pathlib import Path, PurePosixPath

from sandbox.tree import Tree
from tests.support.data.directory_trees import tree_of_directory

FILE = "sympy-1.12.tar.gz"
URL = (
    "https://files.pythonhosted.org/packages/e5/57/"
    f"3485a1a3dff51bfd691962768b14310dae452431754bfc091250be50dd29/{FILE}"
)
SHA256 = "ebf595c8dac3e0fdc4152c51878b498396ec7f30e7a914d6071e674d49420fb8"
SETUP = (
    "pip install mpmath==1.3.0 setuptools wheel",
    "pip install --no-build-isolation --no-deps --editable .",
)
EDITED = (
    "core/add.py",
    "core/mul.py",
    "core/power.py",
    "core/expr.py",
    "core/symbol.py",
    "core/numbers.py",
    "simplify/simplify.py",
    "solvers/solvers.py",
    "matrices/dense.py",
    "integrals/integrals.py",
)


def release(cache: Path) -> bytes:
    """The archive, from `cache` or PyPI, its hash checked either way."""
    kept = cache / FILE
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(URL, timeout=300) as response:
            kept.write_bytes(response.read())
    data = kept.read_bytes()
    assert hashlib.sha256(data).hexdigest() == SHA256, f"{kept} is not what PyPI published"
    return data


def unpack(archive: bytes, folder: Path) -> Tree:
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        for member in tar:
            path = PurePosixPath(*PurePosixPath(member.name).parts[1:])
            content = tar.extractfile(member) if member.isfile() else None
            if content is not None and ".." not in path.parts:
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.read())
    return tree_of_directory(folder)


def edits(folder: Path) -> list[str]:
    """Ten diffs, each of another module that `import sympy` reads."""
    return [_edit(folder, f"sympy/{name}", number) for number, name in enumerate(EDITED)]


def _edit(folder: Path, name: str, number: int) -> str:
    before = (folder / name).read_text().splitlines(keepends=True)
    after = [*before, f"CANDIDATE = {number}\n"]
    return "".join(difflib.unified_diff(before, after, f"a/{name}", f"b/{name}"))
