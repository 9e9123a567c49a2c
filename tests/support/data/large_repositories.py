"""Large repositories, made by one stream into git."""

from collections.abc import Iterable
from pathlib import Path

from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import git


async def stream_repository(git_dir: Path, paths: Iterable[str], content: bytes) -> Codebase:
    """A repository whose files all hold `content`."""
    await git(None, "init", "-q", "--bare", "-b", "main", str(git_dir))
    head = b"blob\nmark :1\ndata %d\n%s\ncommit refs/heads/main\n" % (len(content), content)
    head += b"committer A <a@example.org> 1700000000 +0000\ndata 1\nx\n"
    body = "".join(f"M 100644 :1 {path}\n" for path in paths).encode()
    await git(git_dir, "fast-import", "--quiet", input=head + body)
    return await Codebase.open(git_dir, "main")
