from __future__ import annotations

from pipeline.languages.python.source import find_syntax_errors


async def test_an_error_is_reported_with_its_line() -> None:
    found = await find_syntax_errors({"a.py": b"x = 1\nif x\n    y = 2\n", "b.py": b"x = 1\n"})
    assert found == {"a.py": "line 2: expected ':': if x"}


async def test_errors_that_only_a_whole_compilation_finds_are_found() -> None:
    found = await find_syntax_errors({"a.py": b"return 1\n", "b.py": b"def f():\n  nonlocal x\n"})
    assert "outside function" in found["a.py"]
    assert "nonlocal" in found["b.py"]


async def test_the_encoding_that_a_file_declares_is_obeyed() -> None:
    assert await find_syntax_errors({"a.py": b"# coding: latin-1\nx = '\xe9'\n"}) == {}
    assert await find_syntax_errors({"a.py": b"\xef\xbb\xbfx = 1\n"}) == {}
    assert "a.py" in await find_syntax_errors({"a.py": b"x = '\xe9'\n"})


async def test_other_files_are_not_looked_at() -> None:
    assert await find_syntax_errors({"a.txt": b"if x\n", "b.pyi": b"("}) == {}


async def test_text_that_brings_the_parser_down_gives_no_result_and_harms_nobody() -> None:
    hostile = {"a.py": b"-" * 900_000 + b"1\n", "b.py": b"(" * 100_000, "c.py": b"x\0y"}
    assert set(await find_syntax_errors(hostile)) <= {"a.py", "b.py", "c.py"}


async def test_warnings_are_no_errors() -> None:
    assert await find_syntax_errors({"a.py": b"x = '\\d'\ny = 1 is 1\n"}) == {}
