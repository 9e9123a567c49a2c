"""Every parser of untrusted input, by the name of its folder in `corpus`."""

import asyncio
import base64
import contextlib
import json
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import zstandard

from bot import safe_text as markdown
from bot.admission.issue_text import build_issue
from bot.comments.pull_request import TemplateTexts, fill_template
from bot.data.github_facts import IssueFacts
from bot.data.run import Login
from bot.repo_config.model import parse_or_list_problems
from bot.runs.references import find_on_github
from bot.webhooks.command_text import nearest_verb, parse_command
from bot.webhooks.decide import companion_update, read_request
from bot.webhooks.labels import BotNames
from bot.webhooks.payload import Delivery, InvalidSignature, MalformedPayload, SignatureCheck
from pipeline.bundle import BadBundle, read_bundle
from pipeline.codebase.commit import Codebase, File, read_pointer
from pipeline.codebase.grammars import PARSE_SECONDS
from pipeline.codebase.recent_bytes import RecentBytes
from pipeline.codebase.unified_diff import list_paths, parse_diff, remove_files
from pipeline.context.scout import parse_verdict
from pipeline.data.types import CommitSha
from pipeline.edits.match import find_nearest, replace_once
from pipeline.edits.read import parse_blocks
from pipeline.edits.suspicious import find_suspicious
from pipeline.environment.check import parse_imports
from pipeline.environment.health import count_kinds
from pipeline.environment.setup_machine import parse_commands
from pipeline.generation.diversity import parse_approaches
from pipeline.generation.exploring import parse_test_names
from pipeline.languages.detect import make_recipe
from pipeline.languages.formatters import list_tools
from pipeline.languages.manifests import Manifests
from pipeline.languages.python.ci import find_ci_recipe
from pipeline.languages.python.install import make_installer_plan
from pipeline.languages.python.locks import read_lock
from pipeline.languages.python.packages import parse_collection
from pipeline.languages.python.requirements import find_test_needs
from pipeline.languages.python.tox_nox import nox_lines, tox_lines
from pipeline.languages.readers import parse_console_output, parse_junit, parse_sympy_output
from pipeline.languages.registry import (
    find_counts,
    find_error,
    languages_with_files,
    shorten_failures,
    show_end,
)
from pipeline.languages.test_command import TestCommand
from pipeline.localisation.stages import parse_files, parse_places
from pipeline.models.providers.answers import Answer, read_chat, read_message
from pipeline.models.providers.refused import Refusal
from pipeline.reasons import find_blocked_hosts
from pipeline.regression.results import TestRun
from pipeline.regression.runner import parse_execution
from pipeline.replies import Malformed, only_tag, only_tag_or_approval, some_tags, tags
from pipeline.selection.scoring.canonical import normalise
from pipeline.workflows.revise import split_replies
from sandbox.engine import EnvironmentRequest
from sandbox.environment.dockerfile import check_dockerfile
from sandbox.errors import EnvironmentFailed
from sandbox.program import Execution
from sandbox.tree import Archive, Tree
from tests.fuzz.target import Target, split_files
from tests.support.data.reply_tags import TAGS

NAMES: Final = BotNames("capuchin", "capuchin", "capuchin-bot")
COMMAND: Final = TestCommand(argv=("pytest",), kind="pytest", source="detection")
MARK: Final = "mark"
"""In place of the random word before the wrapper's sections."""


def _text(data: bytes) -> str:
    """JSON from GitHub and from models can hold lone surrogates."""
    return data.decode("utf-8", "surrogateescape")


def parse_settings(data: bytes) -> None:
    parse_or_list_problems(_text(data))


def parse_webhook(data: bytes) -> None:
    """The event's name is the first line."""
    name, _, body = data.partition(b"\n")
    with contextlib.suppress(MalformedPayload):
        wanted = read_request(name.decode("latin-1"), Delivery("delivery-1", NAMES), body)
        if wanted is not None:
            companion_update(wanted)
            wanted.model_dump_json()
    with contextlib.suppress(InvalidSignature):
        check = SignatureCheck(["secret"])
        check.add(body)
        check.finish(name)


def parse_comment(data: bytes) -> None:
    text = _text(data)
    command = parse_command(text, "capuchin")
    if command is not None:
        nearest_verb(command.verb, ("fix", "stop", "status", "retry"))
        assert command.numbers is not None
        assert command.letter is None or command.letter.isupper()
    for form in (markdown.prose, markdown.plain_text, markdown.line, markdown.code):
        form(text)
    markdown.block(text, 4000)


def parse_issue(data: bytes) -> None:
    text = _text(data)
    issue = IssueFacts(number=1, title=text[:300], body=text, state="open")
    build_issue("acme/shop", issue, [], Login("bot"))
    fill_template(text, TemplateTexts("cause", "change", "Fixes #1", "tests"))


def parse_diffs(data: bytes) -> None:
    text = data.decode("utf-8", "replace")  # git writes them for us
    for file in parse_diff(text):
        assert file.path
    remove_files(text, list_paths(text))
    normalise(text)
    assert len(find_suspicious(text)) < 4


def parse_edit_blocks(data: bytes) -> None:
    """A file, a line of `@@@@`, and an edit of it."""
    text, _, edit = _text(data).partition("\n@@@@\n")
    blocks = parse_blocks(edit or text)
    if isinstance(blocks, Malformed):
        return
    for block in blocks:
        changes = [replace_once(text, *split) for split in block.splits()]
        changed = next((each for each in changes if isinstance(each, str)), None)
        if changed is None:  # one block that fits nowhere refuses the edit
            if splits := block.splits():
                find_nearest(text, splits[-1][0])
            return
        text = changed


def parse_reply(data: bytes) -> None:
    text = _text(data)
    only_tag(text, *TAGS)
    only_tag_or_approval(text, "script", "approve")
    tags(text, "title", "cause", "change")
    some_tags(text, *TAGS)
    parse_verdict(text)
    parse_commands(text)
    split_replies(text, 3)
    parse_approaches(text, 3)


def read_answers(data: bytes) -> None:
    """What a model service sends: a JSON document on each line, the pieces of a stream."""
    chat, message = Answer(), Answer()
    for line in data.split(b"\n"):
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            document = _text(line)
        read_chat(chat, document)
        read_message(message, document)
        refusal = Refusal(400, document)
        refusal.find_named({"temperature", "stream_options"})
        assert len(refusal.to_error("a service").words) <= 200
    for answer in (chat, message):
        assert all(isinstance(text, str) for text in (answer.model, *answer.split()))
        assert answer.usage is None or min(answer.usage.model_dump().values()) >= 0


def parse_printed(data: bytes) -> None:
    """What a test runner prints."""
    text = data.decode("utf-8", "replace")
    parse_console_output(text)
    parse_sympy_output(text)
    find_error("", text)
    find_counts("", text)
    shorten_failures(text)
    show_end(text)
    count_kinds(text)
    find_blocked_hosts([text])


def parse_records(data: bytes) -> None:
    section = base64.b64encode(zlib.compress(data, 1)).decode()
    output = f"printed\n{MARK} records {section}\n{MARK} end {section}"
    run = parse_execution(Execution(exit_code=0, output=output, seconds=1.0), COMMAND, MARK)
    TestRun.model_validate_json(run.model_dump_json())


def parse_junit_documents(data: bytes) -> None:
    parse_junit([data])


def parse_bundle(data: bytes) -> None:
    """As it is, and packed, so that a fuzzer also reaches what is inside."""
    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        path = Path(folder, "bundle")
        for form in (data, zstandard.ZstdCompressor(level=1).compress(data)):
            path.write_bytes(form)
            with contextlib.suppress(BadBundle):
                read_bundle(path)


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def parse_dockerfile(data: bytes) -> None:
    with contextlib.suppress(EnvironmentFailed):
        checked = check_dockerfile(data.decode("utf-8", "replace"), ["docker.io"])
        checked.render({}, {"label": "value"})


def parse_manifests(data: bytes) -> None:
    """Everything that the files of a repository say about its installation."""
    texts: Mapping[str, str] = split_files(data)
    names = (*texts, "setup.py", "package.json", "shop/__init__.py")
    manifests = Manifests(names, texts)
    with tempfile.TemporaryFile() as none:
        make_recipe(manifests, EnvironmentRequest(Tree(Archive(none), "0" * 40)))
    list(list_tools(manifests, languages_with_files(names)))
    needs = find_test_needs(names, texts, 12)
    make_installer_plan(manifests, name="shop", needs=needs)
    list(tox_lines(texts))
    list(nox_lines(texts.get("noxfile.py", "")))


def parse_locks(data: bytes) -> None:
    texts = split_files(data)
    read_lock(Manifests(tuple(texts), texts), 12)


def parse_ci(data: bytes) -> None:
    texts = split_files(data)
    find_ci_recipe([*texts, "requirements-dev.txt"], texts)


def parse_health(data: bytes) -> None:
    """The paths of a repository, a line of `@@@@`, and what its environment prints."""
    paths, _, output = data.decode("utf-8", "replace").partition("\n@@@@\n")
    names = frozenset(paths.splitlines())
    assert parse_collection(output, names).files <= names
    parse_imports(output, MARK).model_dump_json()


def parse_search(data: bytes) -> None:
    """A file, a line of `@@@@`, and what a model names of it."""
    file, _, reply = data.partition(b"\n@@@@\n")
    body = _text(reply)
    read_pointer(file)
    find_on_github(body, "acme/shop", "https://github.com")
    codebase = _codebase_of(file)
    places = asyncio.run(parse_places(body, codebase))
    for answer in (parse_files(body, codebase), places, parse_test_names(body, codebase.files)):
        assert not isinstance(answer, Malformed) or len(answer.hint) < 4000


def _codebase_of(content: bytes) -> Codebase:
    """A codebase of one file, `src/till.py`, whose content was read before."""
    file = File("src/till.py", "100644", len(content), "0" * 40)
    recent = RecentBytes(16 * (len(content) + 1))
    recent.add(file.blob, content)
    return Codebase(Path(), CommitSha("0" * 40), {file.path: file}, (), recent)


TARGETS: Final[Mapping[str, Target]] = {
    "settings": Target(parse_settings, seconds=8.0),
    "webhook": Target(parse_webhook),
    "comment": Target(parse_comment),
    "issue": Target(parse_issue, seconds=3.0),
    "diff": Target(parse_diffs, largest=256 * 1024, seconds=1.0 + 3 * PARSE_SECONDS),
    "edit_blocks": Target(parse_edit_blocks),
    "answers": Target(read_answers, largest=64 * 1024),
    "reply": Target(parse_reply, largest=256 * 1024),
    "printed": Target(parse_printed, largest=1024 * 1024),
    "records": Target(parse_records, largest=1024 * 1024),
    "junit": Target(parse_junit_documents, largest=1024 * 1024),
    "bundle": Target(parse_bundle, largest=1024 * 1024),
    "dockerfile": Target(parse_dockerfile, largest=256 * 1024),
    "manifests": Target(parse_manifests, largest=256 * 1024),
    "locks": Target(parse_locks, largest=256 * 1024),
    "ci": Target(parse_ci),
    "health": Target(parse_health, largest=1024 * 1024),
    "search": Target(parse_search, largest=256 * 1024),
}
