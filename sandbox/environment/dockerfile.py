"""Checks a repository's Dockerfile before a daemon sees it.

It refuses everything that acts outside the build's own container: images of this host, addresses
that the daemon itself fetches, volumes, mounts, other networks, triggers.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from sandbox.errors import EnvironmentFailed

OWN_BASE: Final = "capuchin/base"
"""The name by which a Dockerfile refers to the image for repositories without a Dockerfile."""
CONTINUED: Final = re.compile(r"\\[ \t]*$")
MOST_CHARACTERS: Final = 1000
"""Of a FROM, and of an argument's value that is put into one."""


DOCKER_HUB: Final = "docker.io"


class ImageName(NamedTuple):
    """The parts of an image's name, as Docker reads it."""

    registry: str
    repository: str
    reference: str
    """A tag, or a digest."""

    @classmethod
    def parse(cls, name: str) -> "ImageName":
        head, _, rest = name.partition("/")
        if not rest or not (re.search(r"[.:]", head) or head == "localhost"):
            head, rest = DOCKER_HUB, name
        rest, _, digest = rest.partition("@")
        repository, _, tag = rest.partition(":")
        if head == DOCKER_HUB and "/" not in repository:
            repository = f"library/{repository}"
        return cls(head, repository, digest or tag or "latest")


@dataclass(frozen=True)
class Instruction:
    name: str
    rest: str

    def __str__(self) -> str:
        return f"{self.name} {self.rest}"


@dataclass(frozen=True)
class CheckedDockerfile:
    """A Dockerfile without refused instructions, one instruction per line."""

    instructions: tuple[Instruction, ...]
    images: tuple[str, ...]
    """The base images, by the names it uses; `OWN_BASE` may be among them."""

    def render(self, image_ids: Mapping[str, str], labels: Mapping[str, str]) -> str:
        """Render the Dockerfile on the images of `image_ids`, name to id.

        Every layer has `labels`, starting with the first, so that a failed build leaves no unknown
        layer.
        """
        label = " ".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
        lines: list[str] = []
        for instruction in self.instructions:
            if instruction.name == "FROM":
                image, *stage = instruction.rest.split()
                lines += [" ".join(["FROM", image_ids.get(image, image), *stage]), f"LABEL {label}"]
            else:
                lines.append(str(instruction))
        return "\n".join(lines) + "\n"


def check_dockerfile(text: str, registries: Collection[str]) -> CheckedDockerfile:
    """Check a Dockerfile, whose images may come from `registries`.

    Raises:
        EnvironmentFailed: an instruction is refused; names the line and the reason.
    """
    instructions = list(parse_instructions(text))
    instructions = list(expand_arguments(instructions))
    if not any(instruction.name == "FROM" for instruction in instructions):
        raise EnvironmentFailed("The Dockerfile has no FROM.", command="FROM", log="")
    stages: list[str] = []
    images: list[str] = []
    for instruction in instructions:
        why = instruction_problem(instruction, stages, images, registries)
        if why:
            raise refusal(instruction, why)
    return CheckedDockerfile(tuple(instructions), tuple(dict.fromkeys(images)))


def refusal(instruction: Instruction, why: str) -> EnvironmentFailed:
    return EnvironmentFailed(
        f"The Dockerfile is refused: {why}", command=str(instruction)[:300], log=""
    )


def parse_instructions(text: str) -> Iterator[Instruction]:
    """The instructions, each folded into one line, without comments and empty lines."""
    folded = ""
    for line in text.replace("\r\n", "\n").split("\n"):
        if re.match(r"\s*#\s*(syntax|escape|check)\s*=", line, re.IGNORECASE):
            raise refusal(Instruction("#", line.strip()), "parser directives are not allowed.")
        if line.strip().startswith("#") or (folded and not line.strip()):
            continue
        if CONTINUED.search(line):
            folded += CONTINUED.sub("", line) + " "
            continue
        whole, folded = (folded + line).strip(), ""
        if whole:
            name, _, rest = whole.partition(" ")
            yield Instruction(name.strip().upper(), rest.strip())
    if folded.strip():
        name, _, rest = folded.strip().partition(" ")
        yield Instruction(name.upper(), rest.strip())


def expand_arguments(instructions: list[Instruction]) -> Iterator[Instruction]:
    """Put the defaults of ARG into FROM, like Docker; only those before the first FROM count."""
    known: dict[str, str] = {}
    began = False
    for instruction in instructions:
        if instruction.name == "FROM":
            began = True
            if len(instruction.rest) > MOST_CHARACTERS:  # arguments multiply
                raise refusal(instruction, "a FROM is too long.")
            argument = r"\$(?:\{(\w+)\}|(\w+))"
            rest = re.sub(argument, lambda m: known.get(m[1] or m[2], m[0]), instruction.rest)
            yield Instruction("FROM", rest)
            continue
        if instruction.name == "ARG" and not began:
            name, _, value = instruction.rest.partition("=")
            known[name.strip()] = value.strip().strip("\"'")[:MOST_CHARACTERS]
        yield instruction


def instruction_problem(
    instruction: Instruction, stages: list[str], images: list[str], registries: Collection[str]
) -> str | None:
    """Why an instruction is refused, or None. Adds the names in FROM to `stages` and `images`."""
    name, rest = instruction.name, instruction.rest
    if name == "FROM":
        return from_problem(rest, stages, images, registries)
    if name == "RUN":
        if rest.startswith("--"):
            return "options of RUN, such as --mount, --network or --security, are not allowed."
        return "here-documents are not allowed." if "<<" in rest.split("\n")[0][:2] else None
    if name in {"COPY", "ADD"}:
        return copy_problem(name, rest, stages)
    if name == "LABEL":
        return label_problem(rest)
    allowed = "ARG CMD ENTRYPOINT ENV EXPOSE HEALTHCHECK MAINTAINER SHELL STOPSIGNAL USER WORKDIR"
    if name not in allowed.split():
        return f"{name[:40]} is not allowed."
    return None


def label_problem(rest: str) -> str | None:
    plain = unescape(rest)
    names = (word.partition("=")[0] for word in plain.split() if "=" in word)
    if "capuchin" in plain.lower() or any("$" in name for name in names) or plain[:1] == "$":
        return "labels that name capuchin, or whose name is a variable, are not allowed."
    return None


def unescape(text: str) -> str:
    """What Docker makes of a line at most: without quotes and backslashes."""
    return re.sub(r"[\\\"']", "", text)


def from_problem(
    rest: str, stages: list[str], images: list[str], registries: Collection[str]
) -> str | None:
    words = rest.split()
    if not words or words[0].startswith("--"):
        return "FROM must name an image, without options."
    image = words[0]
    if image not in stages and image != "scratch":
        if image != OWN_BASE and not (
            is_image(image) and ImageName.parse(image).registry in registries
        ):
            known = ", ".join(sorted(registries))
            return f"FROM must name {OWN_BASE} or an image of a registry that I may use: {known}."
        images.append(image)
    stages.append(words[2] if len(words) == 3 and words[1].upper() == "AS" else "")
    return None


def is_image(image: str) -> bool:
    """Whether it names an image of a registry, as opposed to one of this host."""
    head = image.partition("/")[0]
    is_id = re.fullmatch(r"[0-9a-f]{4,64}", image)
    if head == "capuchin" or head.startswith("sha256:") or is_id:
        return False
    path = r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*(?::[\w.-]{1,128})?(?:@sha256:[0-9a-f]{64})?"
    return re.fullmatch(rf"(?:[a-z0-9.-]+(?::\d{{1,5}})?/)?{path}", image) is not None


def copy_problem(name: str, rest: str, stages: list[str]) -> str | None:
    words = rest.split()
    options = [word for word in words if word.startswith("--")]
    for option in options:
        key, _, value = option.partition("=")
        if key not in {"--from", "--chown", "--chmod"}:
            return f"the option {key[:40]} of {name} is not allowed."
        known = value and (value in stages or value in map(str, range(len(stages))))
        if key == "--from" and not known:
            return "COPY --from may only name an earlier stage of the same file."
    if "<<" in rest:
        return "here-documents are not allowed."
    if name == "ADD" and re.search(r"(?i)\w://|git@|\$|\\u", unescape(rest) + rest):
        return "ADD may only take files of the repository; fetch others in a RUN line."
    return None
