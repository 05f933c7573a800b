"""A scope is its exact text, and nothing else of it is kept."""

import pytest

from jobs import scope_hash
from uow.text import TextError


@pytest.mark.parametrize(
    ("scope", "beginning", "end"),
    [("Owner", "4b1b8aa3", "835c46"), ("owner", "4c102969", "dc581")],
)
def test_the_hashes_of_the_specification_come_out(scope: str, beginning: str, end: str) -> None:
    digest = scope_hash(scope)
    assert len(digest) == 32
    assert digest.hex().startswith(beginning)
    assert digest.hex().endswith(end)


def test_scopes_that_look_alike_are_different_scopes() -> None:
    alike = ["", " ", "owner", "Owner", "owner ", " owner", "\xe9", "e\u0301", "\x00", "\U0001f600", "\ufffd"]
    assert len({scope_hash(scope) for scope in alike}) == len(alike)


@pytest.mark.parametrize("scope", ["\ud800", "a\udfffb"])
def test_a_lone_surrogate_is_refused_not_replaced(scope: str) -> None:
    with pytest.raises(TextError, match=r"scope must not contain a lone surrogate \(U\+D"):
        scope_hash(scope)


@pytest.mark.parametrize("scope", [b"owner", None, 7])
def test_only_text_is_a_scope(scope: object) -> None:
    with pytest.raises(TextError, match="scope must be text"):
        scope_hash(scope)  # type: ignore[arg-type]
