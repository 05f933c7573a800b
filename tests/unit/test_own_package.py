"""A foreign module under one of our five names is found before it does harm."""

import subprocess
import sys
from pathlib import Path

import pytest

from relay.composition.own_package import ForeignModuleError, check_own_packages


def test_our_own_packages_are_accepted() -> None:
    check_own_packages()
    check_own_packages(str(Path(__file__).parents[2]))


@pytest.mark.parametrize("file", ["jobs.py", "inbox/__init__.py", "uow.py"])
def test_a_directory_with_a_module_of_our_name_is_refused_and_named(tmp_path: Path, file: str) -> None:
    foreign = tmp_path / file
    foreign.parent.mkdir(exist_ok=True)
    foreign.touch()
    with pytest.raises(ForeignModuleError, match=r"uow, outbox, inbox, jobs, relay") as caught:
        check_own_packages(str(tmp_path))
    assert str(tmp_path / file.split("/", maxsplit=1)[0]) in str(caught.value)


def test_a_plain_directory_of_our_name_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    check_own_packages(str(tmp_path))


@pytest.mark.parametrize("name", ["uow", "jobs"])
def test_importing_relay_beside_a_foreign_module_says_which_file_is_in_the_way(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / f"{name}.py").write_text("answer = 42\n")
    home = Path(__file__).parents[2]
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(home)!r}]; import relay"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd="/", check=False
    )
    assert "ForeignModuleError" in result.stderr
    assert str(tmp_path / f"{name}.py") in result.stderr
