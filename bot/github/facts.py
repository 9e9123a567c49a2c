"""The few fields of GitHub's answers that we read; everything else is ignored."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import AliasPath, BaseModel, ConfigDict, Field


class Fact(BaseModel):
    """Lenient on purpose: GitHub adds fields all the time and leaves others null."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class IssueFacts(Fact):
    number: int
    title: str
    body: str | None = None
    state: str
    author: str = Field(default="ghost", validation_alias=AliasPath("user", "login"))
    html_url: str = ""
    locked: bool = False
    pull_request: dict[str, Any] | None = None
    """Set when the "issue" is a pull request."""


class CommentFacts(Fact):
    id: int
    body: str | None = None
    author: str = Field(default="ghost", validation_alias=AliasPath("user", "login"))
    author_type: str = Field(default="User", validation_alias=AliasPath("user", "type"))
    updated_at: datetime


class RepositoryFacts(Fact):
    id: int
    full_name: str
    default_branch: str
    clone_url: str = ""
    archived: bool = False
    size: int = 0

    @property
    def owner(self) -> str:
        return self.full_name.partition("/")[0]

    @property
    def name(self) -> str:
        return self.full_name.partition("/")[2]


class PullRequestFacts(Fact):
    number: int
    html_url: str
    state: str
    draft: bool = False
    body: str | None = None
    head_branch: str = Field(validation_alias=AliasPath("head", "ref"))
    head_sha: str = Field(validation_alias=AliasPath("head", "sha"))


class CheckRunFacts(Fact):
    id: int
    name: str
    status: str
    conclusion: str | None = None
    html_url: str | None = None


class FileFacts(Fact):
    type: str
    size: int = 0
    encoding: str = ""
    content: str = ""


class LabelledFacts(Fact):
    """An entry of an issue's history; only of "labeled" ones do we read more than `event`."""

    event: str
    label: str = Field(default="", validation_alias=AliasPath("label", "name"))
    actor: str | None = Field(default=None, validation_alias=AliasPath("actor", "login"))
    created_at: datetime | None = None


class ReactionFacts(Fact):
    id: int
    content: str
    author: str = Field(default="ghost", validation_alias=AliasPath("user", "login"))
