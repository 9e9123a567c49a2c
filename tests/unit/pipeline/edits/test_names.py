"""Names of files as models write them, and replies that are wrapped in one way or another."""

import asyncio
import html
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.edits.names import read_name
from pipeline.edits.read import ParsedEdit, read_edit
from pipeline.replies import Malformed
from tests.support.data.repositories import make_codebase

NAME = "tests/test_kiln.py"
DECORATED = [
    "{}", "File: {}", "file: `{}`", "**File:** `{}`", "### {}", "#### `{}`:", "1. `{}`", "2) {}",
    "- {}", "* **{}**", "(a) {}", "- [ {} ]({})", "[{}]({})", "[`{}`](./{})", '"{}"', "'{}':",
    "“{}”", "`{}` (new file)", "{} (new)", "{} - new file", "New file: {}", "New file {}:",
    "Create {}", "Create the file `{}`", "In `{}`:", "Filename: {}", "Path: {}", "File path: {}",
    "<path>{}</path>", "<file>{}</file>", '<file path="{}">', "```python {}", "```python:{}",
    '```python title="{}"', "```{}", "~~~py {}", "// {}", "# {}", "<!-- {} -->", "/* {} */",
    "+++ b/{}", "> {}", "./{}", "{},", "Step 1: file {}", "Updated file: {}", "&quot;{}&quot;",
]  # fmt: skip


@pytest.mark.parametrize("line", DECORATED)
def test_the_name_is_read_without_its_decoration(line: str) -> None:
    name = line.replace("[ {} ]", "[{}]").replace("{}", NAME)
    assert read_name(name) == NAME


@pytest.mark.parametrize("line", ["```", "```python", "~~~", "", "   ", "```c++"])
def test_a_fence_is_no_name(line: str) -> None:
    assert read_name(line) == ""


@pytest.mark.parametrize("name", ["1. intro.md", "- x.py", "file a.py", "new/x.py", "New file.txt"])
def test_a_file_that_is_there_keeps_its_name(name: str) -> None:
    assert read_name(f"`{name}`", {name}) == name


@pytest.mark.parametrize(
    "name",
    ["a:b.py", "<new>.py", 'what".py', "a|b.py", "a?.py", "con.py", "docs/nul", "tests./x.py",
     "Here is the test x.py", "COM1.txt"],
)  # fmt: skip
async def test_a_name_that_no_machine_could_check_out_is_refused_and_named(
    name: str, tmp_path: Path
) -> None:
    codebase = await make_codebase(tmp_path, {"kiln.py": b"x = 1\n"})
    read = await read_edit(f"{name}\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE", codebase)
    assert isinstance(read, Malformed)
    assert "path" in read.hint


CODE = "def heat(a, b):\n    return 'a' - b\n"
MEANT = {
    "a divider twice": ("    return 'a' - b", "=======\n    return 'a' + b"),
    "a divider again at the end": ("    return 'a' - b", "    return 'a' + b\n======="),
    "fences around both": ("```python\n    return 'a' - b\n```", "```\n    return 'a' + b\n```"),
    "typographic quotes": ("    return ‘a’ – b", "    return ‘a’ + b"),
    "entities": ("    return &#x27;a&#x27; - b", "    return &#x27;a&#x27; + b"),
}


@pytest.mark.parametrize("case", MEANT)
async def test_what_can_mean_one_thing_alone_is_read_as_that(case: str, tmp_path: Path) -> None:
    search, put = MEANT[case]
    codebase = await make_codebase(tmp_path, {"kiln.py": CODE.encode()})
    body = f"kiln.py\n<<<<<<< SEARCH\n{search}\n=======\n{put}\n>>>>>>> REPLACE"
    read = await read_edit(body, codebase)
    assert isinstance(read, ParsedEdit), read
    assert read.contents["kiln.py"] == CODE.replace("-", "+").encode()


async def test_markers_that_do_not_begin_their_line_are_named(tmp_path: Path) -> None:
    codebase = await make_codebase(tmp_path, {"kiln.py": CODE.encode()})
    body = "kiln.py\n  <<<<<<< SEARCH\n  a\n=======\n  b\n  >>>>>>> REPLACE"
    read = await read_edit(body, codebase)
    assert isinstance(read, Malformed)
    assert "SEARCH" in read.hint


LINE = st.one_of(
    st.sampled_from(["", "x = 1", "    'a'", "\t# b", "&lt;p&gt;", "“q”", "- x", "File: y", "<<"]),
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp", "Cs")), max_size=12),
)
LINES = st.lists(LINE.filter(lambda line: line[:3] not in ("===", "<<<", ">>>", "```", "~~~")),
                 min_size=1, max_size=8)  # fmt: skip


@settings(max_examples=120, deadline=None, derandomize=True)
@given(
    LINES, st.sampled_from(DECORATED[:12]), st.booleans(), st.booleans(), st.sampled_from("nelc")
)
def test_any_text_in_a_wrapped_block_comes_out_byte_for_byte(
    lines: list[str], name: str, fenced: bool, all_fenced: bool, wrap: str
) -> None:
    """Fences around the code or the edit, entities, an indentation, CRLF."""
    code = "\n".join(["```python", *lines, "```"] if fenced else lines)
    title = name.replace("[ {} ]", "[{}]").replace("{}", NAME)
    body = f"{title}\n<<<<<<< SEARCH\n=======\n{code}\n>>>>>>> REPLACE"
    body = f"```\n{body}\n```" if all_fenced else body
    match wrap:
        case "e":
            body = html.escape(body)
        case "l":
            body = "\n".join(f"   {line}" for line in body.split("\n"))
        case "c":
            body = body.replace("\n", "\r\n")
        case _:
            pass

    async def read() -> None:
        with tempfile.TemporaryDirectory() as folder:
            found = await read_edit(body, await make_codebase(Path(folder), {"k.py": b"x\n"}))
            assert isinstance(found, ParsedEdit), found
            assert found.contents == {NAME: "".join(f"{line}\n" for line in lines).encode()}

    asyncio.run(read())
