"""What a repository's CI says of the job that runs its tests, read with limits and never run."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from posixpath import normpath
from typing import Any, Final

from pipeline.languages.manifests import entries, parse_json, parse_yaml, tables, walk_scalars
from sandbox.layout import CHECKOUT

WORKFLOW: Final = re.compile(r"\.github/workflows/[^/]+\.ya?ml")
SETUP_STEPS: Final = re.compile(r"\.github/workflows/copilot-setup-steps\.ya?ml")
DEVCONTAINER: Final = re.compile(
    r"\.devcontainer(/[\w.-]+)?/devcontainer\.json|\.devcontainer\.json"
)
NOT_TESTS: Final = re.compile(
    r"bench|doc|lint|release|publish|deploy|coverage|typ(e|ing)|mypy|nightly|schedule|wheel|stale",
    re.IGNORECASE,
)
"""Matches names of workflows and jobs that do not run tests."""
_ODD: Final = re.compile(
    r"fuzz|cross|mingw|msvc|windows|macos|darwin|android|wasm|arm|aarch|riscv|mips|ppc|s390|i[36]86"
    r"|mysql|maria|postgres|pgsql|oracle|mssql|sqlserver|mongo|redis|sanit|\b[amt]san\b|valgrind|coverage|nightly|bench|lint|docs?\b",
    re.IGNORECASE,
)
"""Matches values of a matrix whose entry does more, or other, than run the tests here."""
NOT_SETUP: Final = re.compile(
    r"\$\{\{|\b(sudo|apt|apt-get|brew|choco|docker|codecov|coveralls|secrets)\b"
    r"|^(echo|export|cd|set|exit|if|then|else|elif|fi|for|while|do|done|case|esac|[{}])(\s|$)"
)
"""Lines that a build without rights cannot run, or that need what CI alone has; and parts of a
shell's longer forms."""
APT: Final = re.compile(
    r"^(?:sudo\s+)?(?:[A-Z_]+=\S+\s+)*apt(?:-get)?\s+(?:-\S+\s+)*install\s+(.*)$"
)
PACKAGE: Final = re.compile(r"[a-z0-9][a-z0-9+.-]{1,60}")
"""A Debian package; https://www.debian.org/doc/debian-policy/ch-controlfields.html#source"""
NOT_A_LIBRARY: Final = re.compile(
    r"^(sudo|python3?[\d.]*(-dev|-venv|-distutils|-pip)?|git|curl|wget|nodejs|npm|snapd|docker.*"
    r"|texlive.*|latex.*|libreoffice.*|chromium.*|firefox.*|google-.*|nvidia.*|cuda.*|linux-.*)$"
)
"""Packages of the runner, and packages too large for tests that run without them. Tests may start a
server by themselves."""
EXPRESSION: Final = re.compile(r"\$\{\{\s*(?:matrix\.)?([\w.-]+)\s*\}\}")
_WORKSPACE: Final = re.compile(
    r"\$\{\{ *(?:github|runner)\.workspace *\}\}|\$\{?GITHUB_WORKSPACE(?:\}|\b)"
)
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w{0,99}", re.ASCII)
_NOT_OURS: Final = re.compile(
    r"PATH|HOME|VIRTUAL_ENV|PYTHONHASHSEED|CI|TOXENV|NOXSESSION|.*COLOR.*|.*_PROXY|(?:LD|PIP|UV|TOX|NOX|COV|COVERAGE"
    r"|GITHUB|RUNNER|CTEST|CODECOV|CAPUCHIN|POETRY|CARGO)_.*|CC|CXX|CPP|AR|AS|LD|NM|RANLIB|STRIP"
    r"|(?:RUST|GO|C|CXX|LD|CPP|MAVEN|JAVA|GRADLE|NODE|RUBY)_?(?:TOOL_)?(?:FLAGS|OPTS|OPTIONS)",
    re.IGNORECASE,
)
"""Variables of the tools that build the code or start the tests, and of the sandbox."""
_OF_SERVICE: Final = re.compile(r".*(?:HOST|URL|URI|DSN|PORT|USER|PASSWORD|TOKEN|SECRET|KEY)$")
"""What CI says of its services, which the sandbox lacks."""
_IMAGE: Final = re.compile(r"[\w./-]{1,200}(:[\w.-]{1,100})?")
"""The name of a container's image."""
_ELSEWHERE: Final = re.compile(
    r"((?:npm|pnpm|yarn|bun)\b.{0,200}?) (?:--prefix|--cwd|--dir|-C)[= ]([\w.@+/-]{1,200})(.*)"
)
"""A package manager that is told in which folder it works."""
_ASSIGNED: Final = re.compile(
    r"(export )?([A-Za-z_]\w{0,99})=([^\s'\"`$]{0,200}|\"[^\"]{0,200}\"|'[^']{0,200}'"
    r"|`[^`]{0,200}`|\$\([^()]{0,200}\))"
)
_FOR_LATER: Final = re.compile(
    r"echo ['\"]?([A-Za-z_]\w{0,99})=([^'\"`$>]{0,200})['\"]? ?>> ?['\"]?\$\{?GITHUB_ENV\}?['\"]?"
)
"""Sets a variable for the steps that follow."""
_COMPARED: Final = re.compile(
    r"(?<![\w.-])(?:matrix\.)?([\w.-]{1,100}) ?([!=]=) ?'([^']{0,100})'"
    r"|(!?)(?:startsWith|contains)\((?:matrix\.)?([\w.-]{1,100}), ?'([^']{0,100})'\)"
)
_USED: Final = re.compile(r"\$(?:\{(?=\w{1,100}\}))?([A-Za-z_]\w{0,99})\}?")
Matrix = Mapping[str, Sequence[str]]
NO_MATRIX: Final[Matrix] = {}
LONGEST_LINE: Final = 2000
MOST_LINES: Final = 2000


@dataclass(frozen=True)
class CiJob:
    """One job that runs the tests, or prepares a machine for them."""

    path: str
    lines: tuple[tuple[str, str], ...]
    """The folder of each command, empty for the root, and the command, in order."""
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """What its steps ask of toolchains, all values of a matrix, by key: `go-version`."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Its literal variables, those of its first step with tests included."""
    setup_env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Those of the steps before the tests."""

    @property
    def packages(self) -> tuple[str, ...]:
        """The Debian packages that it installs."""
        found = (match[1].split() for _, line in self.lines if (match := APT.match(line)))
        return tuple(dict.fromkeys(word for words in found for word in words if is_library(word)))[
            :40
        ]

    def split(self, runs_tests: re.Pattern[str]) -> tuple[list[str], list[tuple[str, str]]]:
        """Its shell lines before the tests that a build can run, and the commands of the tests."""
        plain = [pair for pair in self.lines if not EXPRESSION.search(pair[1])]
        tests = [pair for pair in plain if runs_tests.search(pair[1])]
        before = plain[: plain.index(tests[0])] if tests else plain
        return [
            f"cd {shlex.quote(folder)} && {line}" if folder else line
            for folder, line in before
            if not NOT_SETUP.search(line)
        ], tests


def jobs_of(texts: Mapping[str, str], runs_tests: re.Pattern[str]) -> Iterator[CiJob]:
    """The jobs that run tests, or install for them, the most informative first: the setup steps for
    coding agents, those of GitHub and GitLab, the development container."""
    workflows = [path for path in sorted(texts) if WORKFLOW.fullmatch(path)]
    for path in sorted(workflows, key=lambda path: not SETUP_STEPS.fullmatch(path)):
        yield from _github_jobs(path, texts, runs_tests)
    gitlab = parse_yaml(texts.get(".gitlab-ci.yml", ""))
    shared = list(script_lines(gitlab.get("before_script")))
    for own in map(entries, gitlab.values()):
        script = list(script_lines(own.get("script")))
        if any(runs_tests.search(line) for line in script):
            lines = (*(list(script_lines(own.get("before_script"))) or shared), *script)
            told, exported = follow("", lines)
            env = literal_variables(gitlab.get("variables"), own.get("variables"), exported)
            yield CiJob(".gitlab-ci.yml", told, env=env, setup_env=env)
    for path in filter(DEVCONTAINER.fullmatch, sorted(texts)):
        container = parse_json(re.sub(r"^[ \t]*//.*$", "", texts[path], flags=re.MULTILINE))
        keys = ("onCreateCommand", "updateContentCommand", "postCreateCommand")
        lines = (line for key in keys for line in script_lines(container.get(key)))
        yield CiJob(path, tuple(("", line) for line in lines))


def _github_jobs(
    path: str, texts: Mapping[str, str], runs_tests: re.Pattern[str]
) -> Iterator[CiJob]:
    for name, job, document, inputs in _list_jobs(path, texts):
        shared = (document.get("env"), job.get("env"))
        matrix = {**_read_matrix(job), **inputs}
        for key, said in (pair for level in shared for pair in entries(level).items()):
            matrix[f"env.{key}"] = (_fill(str(said), matrix),)
        steps = [step for step in _list_steps(job, texts) if _may_run(step, matrix)]
        testing = [step for step in steps if any(map(runs_tests.search, _lines_of(step, matrix)))]
        is_named = NOT_TESTS.search(f"{path.rpartition('/')[2]} {name}")
        machine = _fill(str(job.get("runs-on")), matrix)
        is_odd = "${{" not in machine and _ODD.search(machine)
        if (is_named or is_odd or not testing) and not SETUP_STEPS.fullmatch(path):
            continue
        lines: list[tuple[str, str]] = []
        told: list[dict[str, Any]] = []
        later: dict[str, str] = {}
        for step in steps:
            told.append({**later, **(entries(step.get("env")) if "run" in step else {})})
            own, exported = follow(_folder_of(step, job, document), _lines_of(step, matrix), later)
            lines += own
            told[-1] |= exported
            matrix |= {f"env.{key}": (value,) for key, value in later.items()}
        at = steps.index(testing[0]) if testing else len(steps)
        yield CiJob(
            path,
            tuple(lines)[:MOST_LINES],
            versions=dict(pair for step in steps for pair in _versions_of(step, matrix)),
            env=literal_variables(*shared, *told[at : at + 1], matrix=matrix),
            setup_env=literal_variables(*shared, *told[:at], matrix=matrix),
        )


def _list_jobs(
    path: str, texts: Mapping[str, str]
) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any], dict[str, tuple[str, ...]]]]:
    """The jobs of a workflow by name, each with the workflow that it stands in; of one that calls
    another workflow of the repository those of that, with what it is given.

    https://docs.github.com/en/actions/how-tos/reuse-automations/reuse-workflows
    """
    document = parse_yaml(texts[path])
    for name, one in entries(document.get("jobs")).items():
        job, uses = entries(one), str(entries(one).get("uses") or "")
        called = normpath(uses) if uses.startswith("./") else ""
        if called not in texts:
            yield name, job, document, {}
            continue
        there, matrix = parse_yaml(texts[called]), _read_matrix(job)
        stated = entries(entries(entries(there.get("on")).get("workflow_call")).get("inputs"))
        usual = {key: entries(value).get("default") for key, value in stated.items()}
        inputs = {
            f"inputs.{key}": (_fill(value, matrix),)
            for key, value in {**usual, **entries(job.get("with"))}.items()
            if isinstance(value, str)
        }
        for inner, other in entries(there.get("jobs")).items():
            yield f"{name} {inner}", entries(other), there, inputs


def _list_steps(job: Mapping[str, Any], texts: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    """The steps of a job, with those of the repository's own actions in their place."""
    for step in tables(job.get("steps")):
        uses = str(step.get("uses") or "")
        folder = normpath(uses) if uses.startswith("./") else ""
        said = next((texts[f"{folder}/action.{end}"] for end in ("yml", "yaml")
                     if f"{folder}/action.{end}" in texts), "")  # fmt: skip
        yield from tables(entries(parse_yaml(said).get("runs")).get("steps")) or (step,)


def _may_run(step: Mapping[str, Any], matrix: Matrix) -> bool:
    """Whether the condition of a step holds here, as far as it is read."""
    said, known = str(step.get("if") or ""), {**matrix, "runner.os": ("Linux",)}
    return bool(re.search(r"\|\||!\(", said)) or not any(
        (name in known and (known[name][0].lower() == value.lower()) is (sign == "!="))
        or (of in known and (part.lower() in known[of][0].lower()) is bool(no))
        for name, sign, value, no, of, part in _COMPARED.findall(said)
    )


def _read_matrix(job: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """All values of each key of the job's matrix after that of its first entry, which is empty
    where it has none; what runs the tests on a machine like this before fuzzing, other systems and
    other processors.

    https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-syntax#jobsjob_idstrategymatrixinclude
    """
    matrix = entries(entries(job.get("strategy")).get("matrix"))

    def is_odd(value: Any) -> bool:
        return any(map(_ODD.search, walk_scalars(value)))

    found = {
        key: values
        for key, value in matrix.items()
        if key not in ("include", "exclude")
        if (values := tuple(sorted(walk_scalars(value), key=is_odd)))
    }
    crossed = {key: values[:1] for key, values in found.items()}
    entry = {**crossed}
    for one in sorted(tables(matrix.get("include")), key=is_odd):
        own = {key: said for key, value in one.items() if (said := tuple(walk_scalars(value)))}
        if not entry or (crossed and {**own, **crossed} == {**crossed, **own}):
            entry |= own
        found |= {key: (*found.get(key, ()), *said) for key, said in own.items()}
    return {key: (*entry.get(key, ("",))[:1], *said) for key, said in found.items()}


def _lines_of(step: Mapping[str, Any], matrix: Matrix) -> Iterator[str]:
    """The commands of a step, with the values of one entry of the matrix."""
    for line in script_lines(step.get("run")):
        yield _fill(line, matrix)


def _fill(text: str, matrix: Matrix) -> str:
    text = _WORKSPACE.sub(CHECKOUT, text)
    filled = EXPRESSION.sub(lambda match: matrix.get(match[1], (match[0],))[0], text)
    return filled if len(filled) <= max(LONGEST_LINE, len(text)) else text


def follow(
    folder: str, lines: Iterable[str], later: dict[str, str] | None = None
) -> tuple[tuple[tuple[str, str], ...], dict[str, str]]:
    """The lines of one shell that begins in `folder`, each with its own: `cd build`, `npm --prefix
    web test`; and what it exports. A variable that `later` holds, or that it sets, is read as what
    it stands for; what it sets for the shells after it is added to `later`. What it sets under a
    condition is not known."""
    later = {} if later is None else later
    known, exported, within = {**later}, dict[str, str](), 0
    told: list[tuple[str, str]] = []
    for said in lines:
        line = _USED.sub(lambda match: known.get(match[1], match[0]), said)
        if len(line) > LONGEST_LINE:
            continue
        within += bool(re.match(r"(?:if|case)\s", line)) - (line in {"fi", "esac"})
        if within < 1 and (handed := _FOR_LATER.fullmatch(line)):
            later[handed[1]] = handed[2].strip()
        if within < 1 and (assigned := _ASSIGNED.fullmatch(line)):
            known[assigned[2]] = assigned[3]
            if assigned[1] and not re.search("[$`]", assigned[3]):
                exported[assigned[2]] = assigned[3].strip("'\"")
        if entered := re.fullmatch(r"cd\s+([\w.@+/-]{1,200})", line):
            folder = _enter(folder, entered[1])
        elif elsewhere := _ELSEWHERE.fullmatch(line):
            told.append((_enter(folder, elsewhere[2]), elsewhere[1] + elsewhere[3]))
        else:
            told.append((folder, line))
    return tuple(told), exported


def _enter(folder: str, name: str) -> str:
    there = normpath(f"{folder}/{name}".lstrip("/"))
    return "" if there.startswith(".") else there


def _versions_of(step: Mapping[str, Any], matrix: Matrix) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What a step asks of a toolchain, by the key of its input; `toolchain` for a version of Rust
    that stands behind the name of its action."""
    for key, value in entries(step.get("with")).items():
        if key.endswith(("-version", "toolchain", "extensions")):
            named = [EXPRESSION.fullmatch(text.strip()) for text in walk_scalars(value)]
            yield (
                key,
                tuple(
                    one
                    for match, text in zip(named, walk_scalars(value), strict=True)
                    for one in (matrix.get(match[1], ()) if match else text.split("\n"))
                    if one
                ),
            )
    name, _, version = str(step.get("uses") or "").partition("@")
    if name.endswith("/rust-toolchain") and "toolchain" not in entries(step.get("with")):
        yield "toolchain", (version,)


def _folder_of(*places: Mapping[str, Any]) -> str:
    """The folder in which a step runs: its own word, else that of the job or the workflow."""
    for place in places:
        run = entries(entries(place.get("defaults")).get("run"))
        stated = place.get("working-directory") or run.get("working-directory")
        if isinstance(stated, str) and "$" not in (there := _fill(stated, NO_MATRIX)):
            folder = normpath(there.removeprefix(f"{CHECKOUT}/"))
            return "" if folder.startswith((".", "/")) else folder
    return ""


def literal_variables(*levels: Any, matrix: Matrix = NO_MATRIX) -> dict[str, str]:
    """The variables with a literal value, or one of the matrix that asks for nothing which this
    machine lacks, that are the tests' own; later levels take precedence."""
    found: dict[str, str] = {}
    for level in levels:
        for name, value in entries(level).items():
            filled = _fill(value, matrix) if isinstance(value, str) else "${{"
            is_odd = filled != value and _ODD.search(filled)
            if "${{" not in filled and not is_odd and not _is_of_service(name, filled):
                found[name] = filled
    return keep_ours(found.items())


def keep_ours(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The first value of each variable that is not one of the tools, or of the sandbox."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if _VARIABLE.fullmatch(name) and not _NOT_OURS.fullmatch(name) and len(value) <= 2000:
            found.setdefault(name, value)
    return found


def _is_of_service(name: str, value: str) -> bool:
    is_image = _IMAGE.fullmatch(value) and re.search("DOCKER|IMAGE|CONTAINER", name.upper())
    return bool(_OF_SERVICE.match(name.upper()) or "://" in value or is_image)


def script_lines(value: Any) -> Iterator[str]:
    """The commands of a script: lines, and the parts of lines that `&&` and `;` join."""
    for text in walk_scalars(value):
        for line in re.sub(r"\\\r?\n\s*", " ", text).splitlines():
            if len(line) > LONGEST_LINE:
                continue
            for part in split_commands(line):
                if part and not part.startswith("#"):
                    yield part


def split_commands(line: str) -> Iterator[str]:
    """Split a line at `&&`, `||` and `;` outside quotes."""
    quote, begun = "", 0
    for at, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == ";" or line[at : at + 2] in {"&&", "||"}:
            yield line[begun:at].strip(" \t&|")
            begun = at + 1
    yield line[begun:].strip(" \t&|")


def is_library(word: str) -> bool:
    return bool(PACKAGE.fullmatch(word)) and not NOT_A_LIBRARY.match(word)


def is_in_range(version_range: str, version: str) -> bool:
    """Whether some release of `version` (`22`, `1.21`) is in a range of npm, which is also how most
    others are written; an unparsable range accepts all.

    https://github.com/npm/node-semver#ranges
    """
    has = _numbers(version)
    version_range = re.sub(r"v?(\d[\d.]*)\s+-\s+v?(\d)", r">=\1 <=\2", version_range[:500])
    return any(
        all(_is_within(sign, _numbers(low)[: len(has)], has) for sign, low in bounds)
        for part in version_range.split("||")
        for bounds in [re.findall(r"(>=|<=|>|<|\^|~>|~|=)?\s*v?(\d+(?:\.\d+)*)(?:\.[x*]+)*", part)]
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if len(part) < 10)


def _is_within(sign: str, bound: tuple[int, ...], has: tuple[int, ...]) -> bool:
    short = has[: len(bound)]
    if sign in {">=", ">"}:
        return short >= bound
    if sign == "<":
        return short < bound
    if sign == "<=":
        return short <= bound
    return short == bound if sign != "^" else short >= bound and has[0] == bound[0]
