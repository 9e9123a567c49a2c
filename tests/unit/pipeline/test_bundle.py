"""Bundles are read safely."""

import argparse
import io
import json
import tarfile
import tracemalloc
from pathlib import Path

import pytest
import zstandard

from bot.cli import local_run
from bot.cli import replay as cli_replay
from pipeline.bundle import LARGEST_DOCUMENT, BadBundle, read_bundle, write_bundle


def packed(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for member, data in members:
            tar.addfile(member, io.BytesIO(data))
    path.write_bytes(zstandard.ZstdCompressor().compress(raw.getvalue()))
    return path


def member(name: str, data: bytes = b"{}", *, kind: bytes = tarfile.REGTYPE, to: str = "") -> tuple[
    tarfile.TarInfo, bytes
]:  # fmt: skip
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, to, len(data)
    return info, data


def test_what_was_written_is_read(tmp_path: Path) -> None:
    (tmp_path / "run" / "votes").mkdir(parents=True)
    (tmp_path / "run" / "votes" / "a.json").write_text("{}")
    path = tmp_path / "run.tar.zst"
    write_bundle(path, tmp_path / "run", facts={"image": "i"}, extra={"patch.diff": b"x"})
    bundle = read_bundle(path)
    assert dict(bundle.documents) == {"votes/a.json": b"{}"}
    assert (bundle.manifest["image"], bundle.files["patch.diff"]) == ("i", b"x")


@pytest.mark.parametrize("name", ["../x.json", "/etc/passwd", "store/../../x", "a//b", ".hidden"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadBundle, match="which no bundle does"):
        read_bundle(packed(tmp_path / "b", [member(name)]))


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE]
)
def test_links_devices_and_folders_are_refused(tmp_path: Path, kind: bytes) -> None:
    with pytest.raises(BadBundle, match="which no bundle does"):
        read_bundle(packed(tmp_path / "b", [member("x", b"", kind=kind, to="/etc/passwd")]))


def test_a_document_of_unreasonable_size_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = packed(tmp_path / "b", [member("store/a.json", b"\0" * (LARGEST_DOCUMENT + 1))])
    assert path.stat().st_size < 100_000
    with pytest.raises(BadBundle, match="is larger than a bundle may be"):
        read_bundle(path)


def test_a_long_name_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "run" / ("a" * 90)
    folder.mkdir(parents=True)
    (folder / f"{'b' * 90}.json").write_text("{}")
    path = tmp_path / "run.tar.zst"
    write_bundle(path, tmp_path / "run", facts={}, extra={"patch.diff": b"x" * 600})
    assert list(read_bundle(path).documents) == [f"{'a' * 90}/{'b' * 90}.json"]
    assert read_bundle(path).files["patch.diff"] == b"x" * 600


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_a_header_that_unpacks_without_end_is_refused_before_it_is_read(
    tmp_path: Path, kind: bytes
) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = kind, 1 << 30
    path = tmp_path / "b"
    with path.open("wb") as raw, zstandard.ZstdCompressor().stream_writer(raw) as packed:
        packed.write(header.tobuf(tarfile.GNU_FORMAT))
        for _ in range(1 << 10):
            packed.write(b"a" * (1 << 20))
    assert path.stat().st_size < 200_000
    tracemalloc.start()
    with pytest.raises(BadBundle, match=r"larger than a bundle|no bundle does"):
        read_bundle(path)
    assert tracemalloc.get_traced_memory()[1] < 32 * 1024 * 1024
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (b"not json", "has no readable manifest.json"),
        (b"[1]", "its manifest.json names no format"),
        (json.dumps({"format": "1", "files": {}}).encode(), "its manifest.json names no format"),
        (
            json.dumps({"format": 99, "files": {}}).encode(),
            "of format 99, and this Capuchin reads only format 2: use a newer Capuchin",
        ),
        (
            json.dumps({"format": 0, "files": {}}).encode(),
            "of format 0, and this Capuchin reads only format 2",
        ),
        (json.dumps({"format": 2, "files": {"a": "0"}}).encode(), "is damaged: its files are not"),
    ],
)
def test_a_manifest_that_does_not_fit_is_reported(
    tmp_path: Path, manifest: bytes, words: str
) -> None:
    with pytest.raises(BadBundle, match=words):
        read_bundle(packed(tmp_path / "b", [member("manifest.json", manifest)]))


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE])
def test_a_negative_size_is_a_sentence(tmp_path: Path, kind: bytes) -> None:
    header = tarfile.TarInfo("manifest.json")
    header.type, header.size = kind, -512
    path = tmp_path / "b"
    path.write_bytes(zstandard.compress(header.tobuf(tarfile.GNU_FORMAT) + bytes(1024)))
    with pytest.raises((BadBundle, ValueError)) as failed:
        read_bundle(path)
    assert "is not a whole bundle" in str(failed.value)


async def test_the_command_tells_what_is_no_bundle_and_what_holds_no_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def replay(path: Path) -> tuple[int, str]:
        parser = argparse.ArgumentParser()
        cli_replay.register(parser.add_subparsers())
        code = await cli_replay.run_command(parser.parse_args(["replay", str(path)]))
        return code, capsys.readouterr().err

    assert await replay(tmp_path / "none") == (
        local_run.USAGE, f"{tmp_path / 'none'} cannot be read: No such file or directory.\n",
    )  # fmt: skip
    (tmp_path / "text").write_text("hello")
    code, said = await replay(tmp_path / "text")
    assert (code, "is not a whole bundle: it is damaged" in said) == (local_run.USAGE, True)
    (tmp_path / "run").mkdir()
    write_bundle(tmp_path / "empty", tmp_path / "run", facts={}, extra={})
    cut = tmp_path / "cut"
    cut.write_bytes((tmp_path / "empty").read_bytes()[:-20])
    assert (await replay(cut))[0] == local_run.USAGE
    newer = packed(tmp_path / "newer", [member("manifest.json", b'{"format": 3}')])
    code, said = await replay(newer)
    assert code == local_run.USAGE
    assert said == (
        f"{newer} is a bundle of format 3, and this Capuchin reads only format 2: "
        "use a newer Capuchin.\n"
    )
    (tmp_path / "run" / "question").mkdir()
    (tmp_path / "run" / "question" / "evidence.json").write_text('{"format": 99, "record": {}}')
    write_bundle(tmp_path / "later", tmp_path / "run", facts={}, extra={})
    code, said = await replay(tmp_path / "later")
    assert (code, "was saved in format 99" in said) == (local_run.USAGE, True)
    code, said = await replay(tmp_path / "empty")
    assert (code, "does not contain what was to be judged" in said) == (local_run.FAILED, True)
