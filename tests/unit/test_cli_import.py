"""An import string leads to an App, or to an error that says where it stopped and what to do."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from relay.cli.app_import import (
    AppAttributeMissingError,
    AppImportError,
    AppModuleFailedError,
    AppModuleMissingError,
    AppStringError,
    NotAnAppError,
    load_app,
)
from relay.composition.own_package import ForeignModuleError
from tests.support.shop import Shop


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current directory, empty; modules imported from it are forgotten at the end."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    modules = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - modules:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def fails(text: str, kind: type[AppImportError]) -> str:
    with pytest.raises(AppImportError) as caught:
        load_app(text)
    assert type(caught.value) is kind
    return str(caught.value)


def test_an_app_and_a_function_that_returns_one_are_found(directory: Path) -> None:
    Shop(directory)
    app = load_app("shop:app")
    assert load_app("shop:app") is app
    assert load_app("shop:create_app") is not app


def test_a_nested_module_and_attribute_are_found(directory: Path) -> None:
    package = directory / "orders"
    package.mkdir()
    (package / "__init__.py").touch()
    Shop(package)
    (package / "wiring.py").write_text("from orders import shop\n")
    assert load_app("orders.wiring:shop.app").broker_display == "local:"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("shop", "'shop' is not module:attribute such as shop.messaging:app; name both parts"),
        ("shop:", "name both parts"),
        (":app", "name both parts"),
        ("", "name both parts"),
        ("shop.py:app", "leave out .py and use dots for slashes"),
        ("src/shop:app", "use dots for slashes"),
        ("shop:app()", "name both parts"),
        ("..shop:app", "name both parts"),
    ],
)
def test_text_of_another_form_is_refused_with_the_right_form(text: str, told: str) -> None:
    assert told in fails(text, AppStringError)


def test_a_missing_module_and_a_missing_attribute_are_told_apart(directory: Path) -> None:
    assert f"there is no module 'shop' on the import path; looked in {directory} first" in fails(
        "shop:app", AppModuleMissingError
    )
    Shop(directory)
    assert fails("shop:ap", AppAttributeMissingError) == (
        "module 'shop' has no attribute 'ap'; did you mean 'app'?"
    )


def test_a_missing_submodule_is_named(directory: Path) -> None:
    (directory / "orders").mkdir()
    (directory / "orders" / "__init__.py").touch()
    assert "there is no module 'orders.wiring'" in fails("orders.wiring:app", AppModuleMissingError)
    Shop(directory)
    assert "there is no module 'shop.wiring'" in fails("shop.wiring:app", AppModuleMissingError)


def test_a_missing_database_driver_is_told_with_the_extra_that_brings_one(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "aiomysql", None)
    (directory / "shop.py").write_text(
        "from sqlalchemy.ext.asyncio import create_async_engine\n"
        "engine = create_async_engine('mysql+aiomysql://root@localhost/shop')\n"
    )
    assert fails("shop:app", AppModuleFailedError).endswith(
        "\nInstall aiomysql, or install selfmanaged[mysql] and begin the database URL with mysql+asyncmy://"
    )


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import no_such_module\n", "No module named 'no_such_module'"),
        ("def broken(:\n", "SyntaxError: invalid syntax"),
        ("x = 1\nraise RuntimeError('no amqp://u:hunter2@h')\n", "RuntimeError: no amqp://u:***@h"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
        ("import shop.inner\n", "No module named 'shop.inner'"),
    ],
)
def test_a_module_that_fails_shows_its_own_error_and_line(directory: Path, source: str, told: str) -> None:
    (directory / "shop.py").write_text(source)
    text = fails("shop:app", AppModuleFailedError)
    assert text.startswith("importing shop failed:\n")
    assert told in text
    assert "hunter2" not in text
    assert "importlib" not in text
    assert "relay/cli" not in text
    assert str(directory / "shop.py") in text


def test_an_app_that_is_refused_tells_every_fault(directory: Path) -> None:
    (directory / "shop.py").write_text(
        "from relay.app import App\n"
        "def create():\n    return App(engine=None, metadata=None, contracts=None)\n"
        "app = create()\n"
    )
    text = fails("shop:app", AppModuleFailedError)
    assert "give either engine or sessions" in text
    assert "contracts must be a Contracts" in text
    (directory / "late.py").write_text((directory / "shop.py").read_text().replace("app = create()", ""))
    assert fails("late:create", AppModuleFailedError).startswith("calling late:create failed:\n")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("app = 5\n", "shop:app is int, not an App"),
        ("app = None\n", "shop:app is NoneType, not an App"),
        (
            "def app(settings): ...\n",
            "cannot be called without arguments (missing a required",
        ),
        ("async def app(): ...\n", "shop:app is a coroutine function"),
        ("def app(): return 5\n", "shop:app returned int, not an App"),
    ],
)
def test_what_is_no_app_is_named(directory: Path, source: str, told: str) -> None:
    (directory / "shop.py").write_text(source)
    assert told in fails("shop:app", NotAnAppError)


def test_a_module_of_one_of_our_names_beside_the_application_is_reported(directory: Path) -> None:
    Shop(directory)
    (directory / "jobs.py").write_text("")
    with pytest.raises(ForeignModuleError, match=r"jobs\.py has the name of one of selfmanaged's packages"):
        load_app("shop:app")
