"""How many rows the relay claims at once."""

from uuid import uuid4

import pytest

from outbox.claimed import Claim, ClaimedMessage
from relay.options import RelayOptions
from relay.publishing.batch_size import BatchSize
from uow.message import Message
from uow.ticks import UtcInstant

MEBIBYTE = 1024 * 1024


def claim_of(rows: int, payload: str) -> Claim:
    message = Message(
        id=uuid4(), contract_name="a", contract_version=1, occurred_at=UtcInstant(0), payload=payload
    )
    return Claim(uuid4(), tuple(ClaimedMessage(sequence, message, 0) for sequence in range(rows)))


def test_small_payloads_are_soon_claimed_in_whole_batches() -> None:
    size = BatchSize(rows=500, body_bytes=16 * MEBIBYTE)
    claimed = [size.rows]
    while claimed[-1] < 500:
        size.learn(claim_of(size.rows, "x" * 200))
        claimed.append(size.rows)
    assert claimed == [16, 128, 500]


def test_large_payloads_never_make_a_batch_of_more_than_its_bytes() -> None:
    size = BatchSize(rows=500, body_bytes=16 * MEBIBYTE)
    payload = "x" * (MEBIBYTE // 2)
    for _ in range(5):
        assert size.rows * len(payload) <= 16 * MEBIBYTE
        size.learn(claim_of(size.rows, payload))
    assert size.rows == 32


def test_one_payload_larger_than_the_bytes_is_claimed_alone() -> None:
    size = BatchSize(rows=500, body_bytes=MEBIBYTE)
    size.learn(claim_of(1, "x" * (2 * MEBIBYTE)))
    assert size.rows == 1


def test_an_empty_claim_teaches_nothing() -> None:
    size = BatchSize(rows=500, body_bytes=MEBIBYTE)
    size.learn(claim_of(0, ""))
    assert size.rows == 16


@pytest.mark.parametrize("value", [MEBIBYTE - 1, 1024 * MEBIBYTE + 1, 2.5, True])
def test_the_bytes_of_a_batch_have_limits(value: object) -> None:
    with pytest.raises(ValueError, match="batch_body_bytes must be a whole number, 1048576 to 1073741824"):
        RelayOptions(batch_body_bytes=value)  # type: ignore[arg-type]
