"""The end of the demo: what happened, and whether every sum agrees."""

import json
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from examples.orders.facts import Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the file of orders says."""

    orders: int
    cents: int

    @classmethod
    def of(cls, path: Path) -> "Expected":
        """Count and add up the lines of the file."""
        amounts = [json.loads(line)["amount_cents"] for line in path.read_text(encoding="utf-8").splitlines()]
        return cls(orders=len(amounts), cents=sum(amounts))


def show_report(console: Console, facts: Facts, outcomes: dict[str, int], dead_lettered: int) -> None:
    """Print how many events went which way; `dead_lettered` is how many ever were."""
    table = Table(title="What happened to the events")
    table.add_column("events")
    table.add_column("count", justify="right")
    table.add_column("meaning", style="dim")
    duplicates = str(outcomes.get("duplicate", 0)) if outcomes else "not measured"
    for name, count, meaning in (
        ("stored", facts.stored, "committed together with orders and invoices"),
        ("published", facts.published, "confirmed by the broker"),
        ("consumed", facts.consumed, "receipts committed together with their effects"),
        ("duplicated", duplicates, "delivered again, absorbed without effect"),
        ("dead-lettered", dead_lettered, "set aside after the last attempt"),
        ("replayed", facts.replayed, "sent again by the operator, with the same identity"),
    ):
        table.add_row(name, str(count), meaning)
    console.print(table)


def show_jobs(console: Console, facts: Facts) -> None:
    """Print what became of the jobs."""
    table = Table(title="What happened to the jobs")
    table.add_column("jobs")
    table.add_column("count", justify="right")
    table.add_column("meaning", style="dim")
    for name, count, meaning in (
        ("staged", facts.jobs, "committed together with their invoices"),
        ("succeeded", facts.jobs_succeeded, "committed together with their documents"),
        ("attempts", facts.attempts, "begun by executors"),
        (
            "attempts lost",
            facts.attempts_lost,
            "in the hands of the killed executor, and undone",
        ),
    ):
        table.add_row(name, str(count), meaning)
    console.print(table)


def verify_sums(console: Console, facts: Facts, expected: Expected) -> bool:
    """Print each sum beside what it must be; whether all agree."""
    checks = (
        ("orders stored", facts.orders, expected.orders),
        ("orders billed", facts.invoices, expected.orders),
        ("orders packed", facts.parcels, expected.orders),
        ("invoices enclosed", facts.enclosed, expected.orders),
        ("invoices rendered", facts.documents, expected.orders),
        ("renderings", facts.renderings, expected.orders),
        ("jobs succeeded", facts.jobs_succeeded, expected.orders),
        ("events stored", facts.stored, 2 * expected.orders),
        ("events published", facts.published, 2 * expected.orders),
        ("events consumed", facts.consumed, 3 * expected.orders),
        ("dead letters left", facts.dead_lettered, 0),
        ("clean-ups", facts.clean_ups, 1),
        ("baskets left", facts.baskets, 3),
        ("cents ordered", facts.ordered_cents, expected.cents),
        ("cents billed", facts.net_cents, expected.cents),
        ("cents packed", facts.parcel_cents, expected.cents),
        ("cents enclosed", facts.enclosed_cents, facts.net_cents + facts.tax_cents),
    )
    table = Table(title="Do the sums agree?")
    table.add_column("sum")
    table.add_column("counted", justify="right")
    table.add_column("expected", justify="right")
    table.add_column("")
    for name, counted, wanted in checks:
        verdict = "[green]yes[/green]" if counted == wanted else "[red]NO[/red]"
        table.add_row(name, f"{counted:,}", f"{wanted:,}", verdict)
    console.print(table)
    return all(counted == wanted for _, counted, wanted in checks)
