"""The repository's own package: builds it, reads its metadata, links it.

versioneer asks `git describe`, or reads the keywords that `git archive` puts into its file
(`export-subst`). Nothing else reaches it, no variable either; so the keywords of a tag are put
there, as they are in the archive of a release:
https://github.com/python-versioneer/python-versioneer/blob/master/details.md
"""

from __future__ import annotations

import csv
import datetime
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sandbox.guest.installer.plan import ENVIRONMENT, Plan
from sandbox.guest.installer.requirements import name_of, normalise_name
from sandbox.guest.installer.uv import SETUPTOOLS_FOR_EDITABLE, SETUPTOOLS_FOR_UV, UV, Uv, show_line

CHECKOUT = Path("/testbed")
BUILD_SECONDS = 420
"""How long a build of the package may take."""
CYTHON_SOURCE = re.compile(r"""["']((?:\w[\w-]*/)*\w[\w-]*)\.(c|cpp)["']""", re.ASCII)
REFNAMES = re.compile(
    r"""^([ \t]*git_refnames[ \t]*=[ \t]*)["']\$Format:%[dD]\$["']""", re.MULTILINE
)
TAG_PREFIX = re.compile(
    r"""^[ \t]*(?:cfg\.)?tag_prefix[ \t]*=[ \t]*["']([\w./-]*)["']""", re.MULTILINE
)


def translate_cython(uv: Uv, checkout: Path, requirements: Sequence[str]) -> None:
    """Make each C file that the build names and that is there in Cython alone.

    `requirements` may say which Cython. Where it fails, the build itself says what it lacks.
    """
    cython = next((one for one in requirements if name_of(one) == "cython"), "cython")
    for source, suffix in find_untranslated(checkout):
        words = ["tool", "run", *uv.dates(None), "--from", cython, "cython"]
        words += [*(["--cplus"] if suffix == "cpp" else []), f"{source}.pyx"]
        done, _ = uv.run([UV, *words], cwd=str(checkout))
        if done:
            uv.record(words)


def find_untranslated(checkout: Path) -> list[tuple[str, str]]:
    """Paths without their suffix, and the suffix that the build expects, `c` or `cpp`."""
    texts = (read_text(checkout / name) for name in ("setup.py", "pyproject.toml"))
    named = dict.fromkeys(pair for text in texts for pair in CYTHON_SOURCE.findall(text))
    return [
        (stem, suffix)
        for stem, suffix in named
        if (checkout / f"{stem}.pyx").is_file() and not (checkout / f"{stem}.{suffix}").exists()
    ]


def expand_keywords(root: Path, version: str) -> list[str]:
    """Put the tag of `version` into versioneer's files below `root`; the changed paths."""
    if not re.fullmatch(r"\d[\w.!+-]*", version):
        return []
    changed: list[str] = []
    for path in find_version_files(root):
        text = read_text(path)
        if not REFNAMES.search(text):
            continue
        prefix = TAG_PREFIX.search(text)
        tag = (prefix[1] if prefix else "") + version
        expanded = REFNAMES.sub(rf'\g<1>" (tag: {tag})"', text)
        path.write_text(expanded, encoding="utf-8", errors="surrogateescape")
        changed.append(path.relative_to(root).as_posix())
    if changed:
        show_line(f"version {version} written for versioneer to {', '.join(changed)}")
    return changed


def find_version_files(root: Path) -> Iterator[Path]:
    """The modules that are named after a version, not too deep."""
    for parent, folders, names in os.walk(root):
        depth = len(Path(parent).relative_to(root).parts)
        skipped = {"node_modules", "build", "dist"}
        kept = [name for name in folders if name not in skipped and not name.startswith(".")]
        folders[:] = sorted(kept) if depth < 5 else []
        for name in sorted(names):
            path = Path(parent, name)
            if "version" in name and name.endswith(".py") and not path.is_symlink():
                yield path


def read_text(path: Path) -> str:
    """The text of a regular file of moderate size; empty for any other."""
    try:
        if path.is_file() and path.stat().st_size <= 1_000_000:
            return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        pass
    return ""


def build_package(uv: Uv, plan: Plan, minor: int, variables: Mapping[str, str]) -> tuple[bool, str]:
    """Install the package without its dependencies, linked to the checkout; the last output.

    Tools young enough to build an editable install come first. Where they cannot, or Python is too
    old for them, a wheel is built whose files give way to the checkout's. `variables` tell the
    package its version: nothing else is built here.
    """
    output = ""
    base = ["--no-deps", "--reinstall"]
    if plan.backend == "mesonpy":
        # Its editable installs build again on import, with the tools of the environment.
        uv.install([*plan.build_requires, "ninja"])
        words = [*base, "--no-build-isolation", "-e", str(CHECKOUT / plan.root)]
        typed = [*words[:-1], "."]
        done, output = uv.install(words, variables=variables, seconds=BUILD_SECONDS, typed=typed)
        return done, output
    for flags, tools in choose_shapes(plan, minor, dated=uv.latest is not None):
        words = [*base, *flags, str(CHECKOUT / plan.root)]
        done, output = uv.install(
            words, tools=tools, variables=variables, seconds=BUILD_SECONDS, typed=[*words[:-1], "."]
        )
        if done:
            if not flags:
                link_checkout(name_in(output) or plan.name, CHECKOUT / plan.root)
            return True, output
    return False, output


def choose_shapes(
    plan: Plan, minor: int, *, dated: bool
) -> list[tuple[list[str], datetime.date | None]]:
    """Flags of `uv pip install` and the day of setuptools, the best first; None is any day."""
    editable, wheel = ["-e"], list[str]()
    shapes: list[tuple[list[str], datetime.date | None]] = []
    if minor >= 7:
        shapes.append((editable, SETUPTOOLS_FOR_EDITABLE if dated else None))
        if plan.setup_py and not dated:
            shapes.append((editable, SETUPTOOLS_FOR_EDITABLE))
    shapes.append((wheel, SETUPTOOLS_FOR_EDITABLE))
    if plan.setup_py:
        shapes.append((wheel, SETUPTOOLS_FOR_UV))
    return shapes


def name_in(output: str) -> str:
    """The name of the package that uv says it installed from a path."""
    found = re.search(r"^ \+ ([\w.-]+)==\S+ \(from file:", output, re.MULTILINE)
    return found[1] if found else ""


def site_packages() -> Path:
    return next(iter(Path(ENVIRONMENT).glob("lib/python3*/site-packages")))


def find_metadata(name: str) -> Iterator[Path]:
    """The folders of metadata of an installed distribution."""
    for folder in sorted(site_packages().glob("*.dist-info")):
        stem = folder.name[: -len(".dist-info")].rpartition("-")[0]
        if normalise_name(stem) == normalise_name(name):
            yield folder


def read_requirements(name: str, extras: Sequence[str]) -> list[str]:
    """Requires-Dist of an installed distribution, with `extras`.

    uv cannot read them from the checkout itself where the version there is invalid.
    """
    found: list[str] = []
    for folder in find_metadata(name):
        head = (folder / "METADATA").read_text(errors="replace").split("\n\n")[0]
        for line in re.findall(r"^Requires-Dist: (.*)$", head, re.MULTILINE):
            requirement, _, marker = line.partition(";")
            if "extra" in marker:
                wanted = any(
                    re.search(rf"""extra\s*==\s*["']{re.escape(one)}["']""", marker)
                    or re.search(rf"""["']{re.escape(one)}["']\s*==\s*extra""", marker)
                    for one in {*extras, *map(normalise_name, extras)}
                )
                if not wanted:
                    continue
                marker = re.sub(r"""extra\s*==\s*["'][^"']*["']""", 'python_version >= "0"', marker)
                line = requirement + ";" + marker
            found += own_extras(name, requirement, extras) or [line]
    return list(dict.fromkeys(found))


def own_extras(name: str, requirement: str, extras: Sequence[str]) -> list[str]:
    """What `name[other]` stands for in an extra of `name` itself."""
    match = re.match(r"\s*([\w.-]+)\s*\[([^\]]*)\]", requirement)
    if not match or normalise_name(match[1]) != normalise_name(name):
        return []
    more = [one.strip() for one in match[2].split(",") if one.strip() not in extras]
    return read_requirements(name, more) if more else []


def expand_own(name: str, requirements: Sequence[str]) -> list[str]:
    """`requirements` with what extras of `name` stand for in place of `name` itself."""
    found: list[str] = []
    for one in requirements:
        if name_of(one) == normalise_name(name):
            found += own_extras(name, one, ())
        else:
            found.append(one)
    return found


def link_checkout(name: str, checkout: Path) -> None:
    """Put the checkout's files in the place of an installed wheel's.

    Metadata and commands stay. Built libraries are copied into the checkout.
    """
    site = site_packages()
    for folder in find_metadata(name):
        with (folder / "RECORD").open(newline="", errors="replace") as record:
            installed = [row[0] for row in csv.reader(record) if row]
        code = [path for path in installed if ".dist-info/" not in path and ".." not in path]
        found = (find_root(path, checkout) for path in code)
        roots = list(dict.fromkeys(root for root in found if root))
        for path in code:
            copy_built_file(site / path, path, roots)
            if (site / path).is_file():
                (site / path).unlink()
        (site / "__capuchin_checkout.pth").write_text("".join(f"{root}\n" for root in roots))
        show_line(f"{name} is linked to {', '.join(map(str, roots)) or 'nothing'}")
    for parent, _, _ in os.walk(site, topdown=False):
        if not any(Path(parent).iterdir()):
            Path(parent).rmdir()


def find_root(path: str, checkout: Path) -> Path | None:
    """The folder of the checkout that holds an installed file under the same name."""
    roots = (checkout / layout for layout in ("", "src", "lib"))
    return next((root for root in roots if (root / path).exists()), None)


def copy_built_file(source: Path, path: str, roots: Sequence[Path]) -> None:
    """Copy what only a build makes, libraries and version files, beside the checkout's own code."""
    built = path.endswith(".so") or Path(path).name.startswith(("_version", "version"))
    for root in roots:
        target = root / path
        if built and source.is_file() and target.parent.is_dir() and not target.exists():
            shutil.copy(str(source), str(target))
