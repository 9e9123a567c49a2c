"""`capuchin prices check`: shows the price of each configured model, and its source."""

import argparse
import json
import sys
from typing import TYPE_CHECKING, NamedTuple

from bot.cli import FAILED, Subparsers
from bot.settings import Settings, SettingsError, variable_name

if TYPE_CHECKING:
    from pipeline.models.spec import PriceTable


class Row(NamedTuple):
    setting: str
    model: str
    input: float
    output: float
    known: bool
    note: str


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("prices")
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    check = actions.add_parser("check", help="fail if a configured model has no known price")
    check.add_argument("--json", action="store_true", help="print one JSON document")
    check.set_defaults(run=_check)


def _check(args: argparse.Namespace) -> int:
    from pipeline.models.spec import PricesInvalid

    settings = Settings.from_env()
    try:
        table = settings.read_prices()
    except PricesInvalid as error:
        raise SettingsError(f"{variable_name('prices_file')}: {error}") from None
    rows = _list_models(settings, table)
    known = all(row.known for row in rows)
    if args.json:
        models = [row._asdict() for row in rows]
        document = {"date": table.date, "source": table.source, "known": known, "models": models}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        for row in rows:
            mark = "ok  " if row.known else "FAIL"
            dollars = f"${row.input:g} in, ${row.output:g} out per million tokens"
            sys.stdout.write(f"{mark} {row.model}: {dollars}. {row.note}\n")
        sys.stdout.write(f"The list has {len(table.models)} models. {table.source}\n")
        if not known:
            sys.stdout.write("Write the missing prices into a file: CAPUCHIN_PRICES_FILE.\n")
    return 0 if known else FAILED


def _list_models(settings: Settings, table: "PriceTable") -> list[Row]:
    from pipeline.models.spec import look_up, parse_specs

    rows: list[Row] = []
    for role in ("solver_model", "scout_model"):
        text = str(getattr(settings, role))
        try:
            specs = parse_specs(text) if text else ()
        except ValueError as error:
            raise SettingsError(f"{variable_name(role)}: {error}") from None
        for spec in specs:
            found = look_up(spec, table)
            price, known = found.profile.price, found.price_source != "unknown"
            name = variable_name(role)
            rows.append(Row(name, str(spec), price.input, price.output, known, found.note))
    return rows
