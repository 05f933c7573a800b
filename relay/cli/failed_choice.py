"""The filters of `failed list` and `failed replay --all`."""

from typing import Annotated

import typer

from relay.admin.failed_message import FailedFilter
from relay.admin.failure_id import FailureKind
from relay.cli.argument import MOMENTS, parse_moment

KindOption = Annotated[
    FailureKind | None, typer.Option(help="Only failures of this side.", show_default=False)
]
ContractOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Only this contract.", show_default=False)
]
VersionOption = Annotated[
    int | None, typer.Option(metavar="NUMBER", help="Only this version of the contract.", show_default=False)
]
ConsumerOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Only failures of this consumer.", show_default=False)
]
ErrorCodeOption = Annotated[
    str | None, typer.Option(metavar="CODE", help="Only this error code.", show_default=False)
]
SinceOption = Annotated[
    str | None, typer.Option(metavar="MOMENT", help=f"Failed then or later: {MOMENTS}.", show_default=False)
]
UntilOption = Annotated[
    str | None, typer.Option(metavar="MOMENT", help="Failed before then.", show_default=False)
]


def chosen(
    *,
    kind: FailureKind | None,
    contract: str | None,
    contract_version: int | None,
    consumer: str | None,
    error_code: str | None,
    since: str | None,
    until: str | None,
) -> FailedFilter:
    """The filter that these options describe. Raises typer.BadParameter for what can be no filter."""
    failed_from = parse_moment(since, option="--since") if since is not None else None
    failed_before = parse_moment(until, option="--until") if until is not None else None
    try:
        return FailedFilter(
            kind=kind,
            contract_name=contract,
            contract_version=contract_version,
            consumer=consumer,
            error_code=error_code,
            failed_from=failed_from,
            failed_before=failed_before,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
