"""Compare the public API with its baseline in .ci/api: `api.py [--write]`.

A baseline has a line for each public name, method and attribute of a module, with its signature. The source is read and
not imported. A change of the API is a change of a baseline, which a review sees: `--write` rewrites it.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator
from pathlib import Path

import griffe

ROOT = Path(__file__).parents[1]
BASELINES = Path(__file__).with_name("api")
MODULES = ("openinfer", "openinfer.plugin", "openinfer_oinf")
"""Modules whose ``__all__`` is the public API."""

LONGEST_VALUE = 40
"""Characters of values that are shown."""

_KINDS = {
    griffe.ParameterKind.var_positional: "*",
    griffe.ParameterKind.var_keyword: "**",
}


def short(value: object) -> str:
    """Return a value as it is written, if it is short."""
    text = str(value)
    return text if len(text) <= LONGEST_VALUE else "..."


def parameters(function: griffe.Function) -> str:
    """Return the parameters of a function as they would be written, without ``self``."""
    shown: list[str] = []
    previous = None
    for parameter in function.parameters:
        if parameter.name in {"self", "cls"}:
            continue
        is_keyword = parameter.kind is griffe.ParameterKind.keyword_only
        if previous is griffe.ParameterKind.positional_only and parameter.kind is not previous:
            shown.append("/")
        if is_keyword and previous not in {griffe.ParameterKind.keyword_only, griffe.ParameterKind.var_positional}:
            shown.append("*")
        annotation = "" if parameter.annotation is None else f": {parameter.annotation}"
        default = "" if parameter.default is None or parameter.kind in _KINDS else f" = {short(parameter.default)}"
        shown.append(f"{_KINDS.get(parameter.kind, '')}{parameter.name}{annotation}{default}")
        previous = parameter.kind
    if previous is griffe.ParameterKind.positional_only:
        shown.append("/")
    return ", ".join(shown)


def lines_of(name: str, found: griffe.Object | griffe.Alias) -> Iterator[str]:
    """Yield a line for an object, and for a class one for each public member."""
    try:
        target = found.final_target if isinstance(found, griffe.Alias) else found
    except griffe.AliasResolutionError:  # Made by a statement that is not read, such as an assignment in a loop.
        yield name
        return
    if isinstance(target, griffe.Function):
        overloads = target.overloads or [target]
        for function in overloads:
            yield f"{name}({parameters(function)}) -> {function.returns}"
    elif isinstance(target, griffe.Class):
        yield f"class {name}({', '.join(map(str, target.bases))})"
        for member in sorted(target.members):
            if member == "__init__" or not member.startswith("_"):
                yield from lines_of(f"{name}.{member}", target.members[member])
    elif isinstance(target, griffe.Attribute):
        annotation = "" if target.annotation is None else f": {target.annotation}"
        is_constant = target.annotation is None and "class-attribute" in target.labels
        yield f"{name}{annotation}{f' = {short(target.value)}' if is_constant else ''}"
    else:
        yield f"{name} ({target.kind.value})"


def read_sources() -> griffe.ModulesCollection:
    """Return the packages of `MODULES`."""
    loader = griffe.GriffeLoader(search_paths=sorted(ROOT.glob("openinfer-*/src")))
    for package in {module.partition(".")[0] for module in MODULES}:
        loader.load(package)
    loader.resolve_aliases(external=False)
    return loader.modules_collection


def public_api(module: str, sources: griffe.ModulesCollection) -> list[str]:
    """Return the lines of a module's public API, in order of name."""
    loaded = sources[module]
    if loaded.exports is None:
        message = f"{module} has no __all__"
        raise SystemExit(message)
    return [line for name in sorted(map(str, loaded.exports)) for line in lines_of(name, loaded[name])]


def main() -> None:
    is_write = sys.argv[1:] == ["--write"]
    differences: list[str] = []
    sources = read_sources()
    for module in MODULES:
        baseline = BASELINES / f"{module}.txt"
        current = public_api(module, sources)
        if is_write:
            baseline.parent.mkdir(exist_ok=True)
            baseline.write_text("".join(f"{line}\n" for line in current), encoding="utf-8")
        known = baseline.read_text(encoding="utf-8").splitlines() if baseline.exists() else []
        names = (f"{module}: baseline", f"{module}: source")
        differences += difflib.unified_diff(known, current, *names, lineterm="", n=0)
    if differences:
        print(*differences, "", "The public API has changed. If that is intended, run `.ci/api.py --write`.", sep="\n")
        raise SystemExit(1)


if __name__ == "__main__":
    main()
