"""What the bot is called, and the labels that request runs or exclude an issue."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from bot.data.run import Mode, Run
from bot.settings import DEFAULT_NAME, Settings

SUFFIXES: Final[Mapping[Mode, str]] = {Mode.FIX: "", Mode.AUTO: ":auto", Mode.PLAN: ":dry-run"}


@dataclass(frozen=True)
class LabelSet:
    """The bot's labels, derived from the one that the operator configures.

    GitHub ignores case in labels, and so do all comparisons here.
    """

    base: str

    @property
    def modes(self) -> dict[str, Mode]:
        """Each label that requests a run, as the operator spells it, with the run's mode."""
        return {self.base + suffix: mode for mode, suffix in SUFFIXES.items()}

    @property
    def descriptions(self) -> dict[str, str]:
        """All labels, each with the sentence that GitHub shows beside it."""
        said = {
            Mode.FIX: "Fix this issue with a pull request",
            Mode.AUTO: "Fix this issue without asking back, and not as a draft",
            Mode.PLAN: "Say what a fix would take; open nothing",
        }
        ours = {label: said[mode] for label, mode in self.modes.items()}
        return {**ours, self.opt_out: "Keep away from this"}

    @property
    def opt_out(self) -> str:
        """The label that keeps the bot away from an issue or from one of its pull requests."""
        return self.base + ":disabled"

    def mode_of(self, label: str) -> Mode | None:
        """The mode that `label` requests; None if it requests no run."""
        known = {ours.casefold(): mode for ours, mode in self.modes.items()}
        return known.get(label.casefold())

    def is_opt_out(self, label: str) -> bool:
        return label.casefold() == self.opt_out.casefold()

    def find_opt_out(self, labels: Iterable[str]) -> str | None:
        return next(filter(self.is_opt_out, labels), None)

    def label_to_remove(self, run: Run) -> str:
        """The label to remove from the issue when `run` ends; empty for none.

        That is the label that requested the run. A run that a comment requested also answers the
        label that requests the same; any other label still waits for a run of its own.
        """
        if run.label or run.mode not in SUFFIXES:
            return run.label
        return self.base + SUFFIXES[run.mode]


@dataclass(frozen=True)
class BotNames:
    """What the bot is called. GitHub ignores case in all of it."""

    label: str
    app: str
    slug: str = ""
    """As GitHub has it; empty until that is known."""

    @classmethod
    def of(cls, settings: Settings) -> "BotNames":
        return cls(label=settings.label, app=settings.app_name)

    def with_slug(self, slug: str) -> "BotNames":
        """The same with the name that GitHub has."""
        return replace(self, slug=slug)

    @property
    def called(self) -> tuple[str, ...]:
        """What comments may call it, beside `/capuchin`: never what may be another's account."""
        ours = () if self.slug and self.app == DEFAULT_NAME else (self.app,)
        return tuple(dict.fromkeys(filter(None, (self.slug, *ours))))

    @property
    def labels(self) -> LabelSet:
        return LabelSet(self.label)

    def is_app(self, login: str) -> bool:
        return login.casefold() in {f"{name}[bot]".casefold() for name in self.called}


def has_label(labels: Iterable[str], label: str) -> bool:
    return label.casefold() in map(str.casefold, labels)
