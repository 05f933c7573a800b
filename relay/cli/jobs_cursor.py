"""Where a page of jobs ended, as a text that an operator hands back."""

import base64
import binascii
from typing import Final

import msgspec

from jobs.listing import JobCursor
from jobs.table import JOB_ID_UNITS
from uow.errors import FixTheCodeError
from uow.text import check_text
from uow.ticks import UtcInstant

_PLACE: Final = tuple[int, str]


class JobCursorError(FixTheCodeError):
    """The text is not a cursor that `jobs list` gave; begin without one."""


def write_cursor(cursor: JobCursor) -> str:
    """The cursor as a text without blanks."""
    return base64.urlsafe_b64encode(msgspec.json.encode((cursor.created.ticks, cursor.job_id))).decode()


def read_cursor(text: str) -> JobCursor:
    """The cursor that `write_cursor` wrote. Raises JobCursorError for any other text."""
    try:
        ticks, job_id = msgspec.json.decode(base64.urlsafe_b64decode(text.encode()), type=_PLACE)
        return JobCursor(UtcInstant(ticks), check_text("job_id", job_id, units=JOB_ID_UNITS))
    except (ValueError, binascii.Error, msgspec.MsgspecError) as error:
        raise JobCursorError("not a cursor of the list of jobs; begin without one") from error
