"""The display of a terminal: the stages, what is counted, the cost and the time left, in place."""

from collections.abc import Iterator, Mapping

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from bot.cli import FAILED, USAGE
from bot.cli.display import Display, Pace, estimate_run
from bot.comments.status import STAGE_TITLES, describe_counts, measure_stage
from bot.data.progress import STAGES, Progress, Stage
from bot.safe_text import printable
from prompts.text import describe_dollars, pluralize

MOST_LINES = 100
"""Of the chosen edit, shown in color."""


def choose_live_display(*, stages: bool) -> "LiveDisplay | None":
    """A display on the terminal at standard error; None if it cannot move its cursor or color."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    if console.is_dumb_terminal or console.no_color:  # TERM=dumb, NO_COLOR
        return None
    return LiveDisplay(console, stages=stages)


class LiveDisplay(Display):
    """Redraws itself below the sentences, from a thread, until `close`."""

    def __init__(self, console: Console, *, stages: bool = True) -> None:
        """`stages`: list the stages of a run that fixes an issue."""
        super().__init__()
        self._list_stages = stages
        self._console = console
        ascii_only = console.options.ascii_only
        marks = ("+", "x", "-", ", ") if ascii_only else ("✔", "✘", "·", " · ")
        self._marks: dict[str, str] = dict(
            zip(("done", "failed", "later", "between"), marks, strict=True)
        )
        self._spinner = Spinner("line" if ascii_only else "dots")
        self._progress = Progress()
        self._budget = 0.0
        self._pace = Pace()
        self._ended = ""
        """The mark of the stage during which it ended."""
        self._live = Live(
            console=console,
            get_renderable=self.__rich__,
            refresh_per_second=5,
            redirect_stdout=False,  # results go there, perhaps into a file
        )

    def say(self, sentence: str) -> None:
        self._console.print(Text(printable(sentence)), soft_wrap=True)

    def show(self, progress: Progress, budget: float) -> None:
        if progress.doing != self._progress.doing:
            self._pace.note(progress.counted)
        self._progress, self._budget = progress, budget
        if not self._live.is_started:
            self._live.start()

    def show_edit(self, diff: str) -> None:
        lines = printable(diff).splitlines()
        text = "\n".join(lines[:MOST_LINES])  # in the terminal's own colors
        shown = Syntax(text, "diff", theme="ansi_dark", background_color="default")
        self._console.print(shown)
        if len(lines) > MOST_LINES:
            self.say(f"... {pluralize(len(lines) - MOST_LINES, 'more line')}")

    def end(self, code: int, facts: Mapping[str, object]) -> None:
        del facts
        self._stop("failed" if code in (FAILED, USAGE) else "done")

    def close(self) -> None:
        self._stop("failed")

    def _stop(self, mark: str) -> None:
        if self._live.is_started:
            self._ended = self._marks[mark]
            self._live.stop()

    def __rich__(self) -> RenderableType:
        """What it shows now."""
        lines = [*self._stage_lines()] if self._list_stages else [self._spinner]
        if not self._ended:
            lines = [*lines, *self._step_lines()]
        return Group(*lines, Text(self._footer(), style="dim", no_wrap=True, overflow="ellipsis"))

    def _stage_lines(self) -> Iterator[RenderableType]:
        progress = self._progress
        latest: Stage = max(progress.stages or STAGES[:1], key=STAGES.index)
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(width=1)
        table.add_column(no_wrap=True, width=max(map(len, STAGE_TITLES.values())))
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for stage in STAGES:
            seconds = measure_stage(stage, progress.stages)
            took = "" if seconds is None else format_clock(seconds)
            facts = filter(None, (describe_counts(stage, progress), took))
            line = printable(self._marks["between"].join(facts), one_line=True)
            text = Text(line, style="dim")
            table.add_row(*self._title(stage, latest), text)
        yield table

    def _title(self, stage: Stage, latest: Stage) -> tuple[RenderableType, Text]:
        title = STAGE_TITLES[stage]
        if STAGES.index(stage) > STAGES.index(latest):
            return Text(self._marks["later"], style="dim"), Text(title, style="dim")
        if stage != latest or self._ended == self._marks["done"]:
            return Text(self._marks["done"], style="green"), Text(title)
        if self._ended:
            return Text(self._ended, style="red"), Text(title)
        return self._spinner, Text(title, style="bold")

    def _step_lines(self) -> Iterator[RenderableType]:
        if doing := self._progress.doing:
            line = f"  {printable(doing, one_line=True)}"
            yield Text(line, no_wrap=True, overflow="ellipsis")
        if self._progress.counted is not None:
            done, total, _ = self._progress.counted
            bar = Table.grid(padding=(0, 1))
            bar.add_column(width=1)
            left = self._pace.seconds_left
            words = f"{done:,} of {total:,}"
            if left is not None and done < total:
                words += f"{self._marks['between']}about {format_clock(left)} left"
            bar.add_row("", ProgressBar(total=max(1, total), completed=done, width=30), Text(words))
            yield bar

    def _footer(self) -> str:
        parts = [f"{format_clock(self.earlier + self.seconds)} so far"]
        spent = describe_dollars(self._progress.dollars)
        parts.append(f"{spent} of at most ${self._budget:.2f}" if self._budget else spent)
        run = None if self._ended else estimate_run(self._progress, self.earlier)
        if run is not None:
            least, most = round(run[0] / 60), max(1, round(run[1] / 60))
            span = f"{least} to {most} min" if least else f"at most {most} min"
            span = f"{most} min" if least >= most else span
            parts.append(f"about {span} left, by earlier runs")
        return "  " + self._marks["between"].join(parts)


def format_clock(seconds: float) -> str:
    """Minutes and seconds, as in 2:05."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"
