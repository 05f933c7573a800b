"""The one SQL mode of MySQL and MariaDB under which its asynchronous drivers garble what they send."""

from typing import Any, Final

from sqlalchemy import Connection

from uow.errors import FixTheCodeError

_NO_BACKSLASH_ESCAPES: Final = 0x200  # a flag in the server's every answer


class UnsafeSqlModeError(FixTheCodeError):
    """The connection's sql_mode holds NO_BACKSLASH_ESCAPES; take it out of the mode."""


def require_safe_sql_mode(connection: Connection) -> None:
    """Raise UnsafeSqlModeError for NO_BACKSLASH_ESCAPES; no round trip, other databases have no such mode.

    asyncmy and aiomysql write the quotes of binary values with backslashes whatever the mode, so texts
    would be stored with other characters, and a quote in one would end the value.
    """
    driver: Any = connection.connection.driver_connection
    status = getattr(driver, "server_status", None)
    if isinstance(status, int) and status & _NO_BACKSLASH_ESCAPES:
        raise UnsafeSqlModeError(
            "sql_mode NO_BACKSLASH_ESCAPES is set, under which asyncmy and aiomysql send binary values "
            "garbled; take it out of the mode of this connection (init_command in connect_args) or server"
        )
