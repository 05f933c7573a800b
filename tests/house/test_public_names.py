"""What a package shows: named in `__all__`, documented, and nothing of another package's."""

import importlib
import inspect

import pytest

from tests.house.source import PACKAGES, ROOT

# A package that stands empty shows nothing yet.
FLOOR_PACKAGES = [
    name for name in PACKAGES if name != "jobs" or hasattr(importlib.import_module(name), "__all__")
]


@pytest.mark.parametrize("package", FLOOR_PACKAGES)
def test_every_public_name_exists_and_is_documented(package: str) -> None:
    module = importlib.import_module(package)
    assert module.__doc__
    assert module.__all__, f"{package} shows nothing"
    assert len(set(module.__all__)) == len(module.__all__)
    undocumented = []
    for name in module.__all__:
        value = getattr(module, name)
        if (inspect.isclass(value) or inspect.isfunction(value)) and not (value.__doc__ or "").strip():
            undocumented.append(name)
        if inspect.isclass(value):
            undocumented += [f"{name}.{method}" for method in _undocumented_methods(value)]
    assert undocumented == []


@pytest.mark.parametrize("package", FLOOR_PACKAGES)
def test_public_names_carry_complete_annotations(package: str) -> None:
    module = importlib.import_module(package)
    incomplete = []
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isfunction(value):
            incomplete += [f"{name}({gap})" for gap in _unannotated(value)]
        elif inspect.isclass(value):
            for method_name, method in inspect.getmembers(value, inspect.isfunction):
                if not method_name.startswith("_") and method.__module__.split(".")[0] in PACKAGES:
                    incomplete += [f"{name}.{method_name}({gap})" for gap in _unannotated(method)]
    assert incomplete == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_is_marked_as_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()


def _undocumented_methods(value: type) -> list[str]:
    return [
        name
        for name, member in vars(value).items()
        if not name.startswith("_")
        and (inspect.isfunction(member) or isinstance(member, property | classmethod | staticmethod))
        and not (inspect.getdoc(getattr(value, name)) or "").strip()
    ]


def _unannotated(function: object) -> list[str]:
    signature = inspect.signature(function)  # type: ignore[arg-type]
    gaps = [
        parameter.name
        for position, parameter in enumerate(signature.parameters.values())
        if parameter.annotation is inspect.Parameter.empty
        and not (position == 0 and parameter.name in {"self", "cls"})
    ]
    return [*gaps, "return"] if signature.return_annotation is inspect.Signature.empty else gaps
