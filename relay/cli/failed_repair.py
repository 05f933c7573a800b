"""`selfmanaged failed replay|discard`: the two things an operator can do, one by one or by filter."""

from collections import Counter
from typing import Annotated, Final

import typer

from relay.admin.failed_message import BulkProgress, FailedFilter, OperationReport
from relay.admin.operation import OperationResult
from relay.app import App
from relay.cli.argument import AppArgument, JsonOption, OperatorOption, YesOption, examples
from relay.cli.command import run_command
from relay.cli.confirmation import confirmed
from relay.cli.exit_code import ExitCode
from relay.cli.failed_choice import (
    ConsumerOption,
    ContractOption,
    ErrorCodeOption,
    KindOption,
    SinceOption,
    UntilOption,
    VersionOption,
    chosen,
)
from relay.cli.failed_view import none_found
from relay.cli.screen import Screen
from relay.settings import operator_name, read_settings

_CODES: Final = {
    OperationResult.ACCEPTED: ExitCode.DONE,
    OperationResult.NOT_FOUND: ExitCode.NOT_FOUND,
    OperationResult.INVALID_STATE: ExitCode.INVALID_STATE,
    OperationResult.UNREADABLE: ExitCode.UNREADABLE,
}
_WORDS: Final = {
    OperationResult.NOT_FOUND: "there is no such message",
    OperationResult.INVALID_STATE: "it is not dead-lettered any more; `failed show` says what happened",
    OperationResult.UNREADABLE: "its payload cannot be read; repair it by a migration or an update",
}


def replay(
    *,
    app: AppArgument,
    failure_ids: Annotated[
        list[str] | None, typer.Argument(metavar="FAILURE_ID", help="As `failed list` prints them.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that match the filters.")] = False,
    kind: KindOption = None,
    contract: ContractOption = None,
    contract_version: VersionOption = None,
    consumer: ConsumerOption = None,
    error_code: ErrorCodeOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    operator: OperatorOption = None,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Publish or handle messages again: same identity, same payload.

    Other consumers may see the event again; their receipts absorb it. Exit code 8 not found, 9 invalid
    state, 10 unreadable, 11 some of several were not accepted.
    """
    wanted = chosen(
        kind=kind,
        contract=contract,
        contract_version=contract_version,
        consumer=consumer,
        error_code=error_code,
        since=since,
        until=until,
    )
    _check_choice(everything, failure_ids or [], wanted)

    async def work(loaded: App, screen: Screen) -> ExitCode:
        await loaded.check_database()
        who = operator or operator_name(read_settings())
        if everything:
            return await _replay_all(loaded, screen, wanted, who, yes=yes)
        return _tell(
            "replayed", [await loaded.failed.replay(each, operator=who) for each in failure_ids or ()], screen
        )

    run_command(app, work, json=json)


def discard(
    *,
    app: AppArgument,
    failure_ids: Annotated[
        list[str], typer.Argument(metavar="FAILURE_ID", help="As `failed list` prints them.")
    ],
    reason: Annotated[str, typer.Option(help="Why; kept in the record.")],
    operator: OperatorOption = None,
    json: JsonOption = False,
) -> None:
    """Resolve messages without running them: the rows stay, their ordering keys go on."""

    async def work(loaded: App, screen: Screen) -> ExitCode:
        await loaded.check_database()
        who = operator or operator_name(read_settings())
        reports = [await loaded.failed.discard(each, reason=reason, operator=who) for each in failure_ids]
        return _tell("discarded", reports, screen)

    run_command(app, work, json=json)


def _check_choice(everything: bool, failure_ids: list[str], wanted: FailedFilter) -> None:
    if everything == bool(failure_ids):
        raise typer.BadParameter("give failure ids, or --all with filters")
    if not everything and wanted != FailedFilter():
        raise typer.BadParameter("filters go with --all")


async def _replay_all(
    app: App, screen: Screen, wanted: FailedFilter, operator: str, *, yes: bool
) -> ExitCode:
    if not yes and not screen.json:
        count = await app.failed.count(wanted)
        if count and not confirmed(f"Replay {count} messages?"):
            screen.note("Nothing was replayed.")
            return ExitCode.DONE
    refused: list[OperationReport] = []

    def keep(report: OperationReport) -> None:
        if report.result is not OperationResult.ACCEPTED and len(refused) < 1000:
            refused.append(report)

    with screen.progress("Replaying", None) as bar:

        def advance(progress: BulkProgress) -> None:
            bar.show(progress.done, progress.total)

        done = await app.failed.replay_many(wanted, operator=operator, on_progress=advance, on_report=keep)
    screen.document(
        {
            "results": {result.value: count for result, count in done.results.items()},
            "refused": [_document(report) for report in refused],
        }
    )
    if done.done:
        screen.line(f"Replayed {done.accepted} of {done.done} messages.")
    else:
        screen.line(none_found(wanted, [each.name for each in app.consumers]))
    _list_refused(refused, screen)
    return ExitCode.DONE if done.accepted == done.done else ExitCode.PARTLY_DONE


def _tell(verb: str, reports: list[OperationReport], screen: Screen) -> ExitCode:
    screen.document({"results": [_document(report) for report in reports]})
    refused = [report for report in reports if report.result is not OperationResult.ACCEPTED]
    for report in reports:
        if report.result is OperationResult.ACCEPTED:
            screen.line(f"{verb} {report.failure_id}")
    _list_refused(refused, screen)
    codes = Counter(_CODES[report.result] for report in reports)
    return next(iter(codes)) if len(codes) == 1 else ExitCode.PARTLY_DONE


def _list_refused(refused: list[OperationReport], screen: Screen) -> None:
    for report in refused:
        why = _WORDS[report.result] + (f" ({report.detail})" if report.detail else "")
        screen.line(f"{report.result.value}: {report.failure_id}: {why}", style="yellow")


def _document(report: OperationReport) -> dict[str, str | None]:
    return {"failure_id": report.failure_id, "result": report.result.value, "detail": report.detail}


def add_to(group: typer.Typer) -> None:
    """Add both commands to the group `failed`."""
    group.command(
        "replay",
        epilog=examples(
            "selfmanaged failed replay shop:app inbox:019c...:billing",
            "selfmanaged failed replay shop:app --all --consumer billing --since 2h",
        ),
    )(replay)
    group.command(
        "discard",
        epilog=examples('selfmanaged failed discard shop:app outbox:019c... --reason "a test order"'),
    )(discard)
