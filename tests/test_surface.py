"""The shape of the package: what it exports, which way its layers import, and how small its pieces stay."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import surehand
from surehand import errors

PACKAGE = Path(surehand.__file__).parent
FILES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
TREES = {module: ast.parse(path.read_text("utf-8")) for module, path in FILES.items()}
every_module = pytest.mark.parametrize("module", FILES)

# The layers, lowest first. A name stands for the module and everything below it that has no entry of its own.
LAYERS = (
    ("messages", "contents", "errors", "_codec", "_checks"),
    (
        *("events", "_effects", "policies", "_ledger", "_cancel", "_reading", "_records", "_recorded", "_report"),
        *("_books", "_settings", "_round", "_tallies", "budgets", "tools"),
    ),
    (
        *("_loop", "_asking", "_call", "_attempt", "_job", "_doubt", "_giveup", "_undoing", "_schedule"),
        *("_keeping", "_limits", "_tool_limits", "_guards", "_money", "_recalling", "_catching_up"),
        *("_toolbox", "_correcting", "_nested", "_answer", "_output", "_one_call"),
    ),
    (
        "_colour",
        "_interrupts",
        "_outbox",
        "_drive",
        "_pieces",
        "_patience",
        "_perform",
        "_using",
        "_aperform",
        "_supervise",
        "_by_hand",
        "models._base",
    ),
    ("models", "memory", "durable", "mcp", "telemetry", "prices"),
    (
        *("service", "agent", "_options", "_memories", "_new_run", "_agent_tool", "_results", "_streams", "_partial"),
        *("_callbacks", "_recovery", "assistant", "testing", "_running", "_invoked"),
        *("_stepwise", "_step_values", "_steps_of_a_run", "_started"),
    ),
    ("", "cli", "studio", "demo", "__main__"),  # "" is surehand/__init__.py: only a shell may import from it
)
LAYER_OF = {name: number for number, names in enumerate(LAYERS) for name in names}

# Modules that reach for the clock, chance, the environment, threads, an event loop or the outside.
# fmt: off
IO_MODULES = frozenset({
    "_thread", "anyio", "asyncio", "concurrent", "ctypes", "fcntl", "getpass", "glob", "http", "httpx", "io",
    "logging", "mmap", "multiprocessing", "os", "pathlib", "queue", "random", "requests", "sched", "secrets", "select",
    "selectors", "shutil", "signal", "socket", "socketserver", "sqlite3", "ssl", "subprocess", "tempfile", "threading",
    "time", "trio", "urllib", "uuid",
})
# fmt: on
IO_BUILTINS = frozenset({"open", "print", "input"})

# What `import surehand` may load besides the standard library.
LOADED_WITH_SUREHAND = {
    "surehand",
    "msgspec",
    "pydantic",
    "pydantic_core",
    "annotated_types",
    "typing_extensions",
    "typing_inspection",
}


def layer_of(module: str) -> int | None:
    """The number of a module's layer, None if it has none."""
    name = module.removeprefix("surehand").removeprefix(".")
    while name not in LAYER_OF and "." in name:
        name = name.rpartition(".")[0]
    return LAYER_OF.get(name)


def imports_of(module: str) -> Iterator[tuple[str, int]]:
    """Every module that ``module`` imports, anywhere in the file, by its full name, with the line."""
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = _absolute(module, node)
            for alias in node.names:
                member = f"{source}.{alias.name}"
                yield (member if member in FILES else source), node.lineno


def _absolute(module: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = module.split(".") if FILES[module].name == "__init__.py" else module.split(".")[:-1]
    base = package[: len(package) - (node.level - 1)]
    return ".".join([*base, node.module] if node.module else base)


def test_all_lists_exactly_the_public_names() -> None:
    public = sorted(
        name
        for name, value in vars(surehand).items()
        if not name.startswith("_")
        and not (isinstance(value, ModuleType) and value.__name__.startswith("surehand."))
        and name != "annotations"  # left behind by `from __future__ import annotations`
    )
    assert sorted(surehand.__all__) == public


def test_every_public_name_has_a_docstring() -> None:
    assert [name for name in surehand.__all__ if not _is_documented(name)] == []


def _is_documented(name: str) -> bool:
    value = getattr(surehand, name)
    if inspect.isclass(value):
        doc = value.__dict__.get("__doc__")  # an inherited docstring says nothing about this class
        return bool(doc) and not doc.startswith(f"{value.__name__}(")  # what a dataclass makes up is none either
    if inspect.isroutine(value):
        return bool(inspect.getdoc(value))
    return name in _documented_assignments()  # an alias or a constant: the string under its assignment


def _documented_assignments() -> set[str]:
    return {
        target.id
        for tree in TREES.values()
        for node, after in zip(tree.body, tree.body[1:], strict=False)
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str)
        for target in _targets(node)
        if isinstance(target, ast.Name)
    }


def _targets(node: ast.stmt) -> list[ast.expr]:
    if isinstance(node, ast.AnnAssign):
        return [node.target]
    return node.targets if isinstance(node, ast.Assign) else []


@every_module
def test_a_module_has_a_layer_and_imports_only_its_own_and_lower_ones(module: str) -> None:
    own = layer_of(module)
    assert own is not None, f"say in LAYERS where {module} belongs"
    upward = [
        f"line {line}: {imported}"
        for imported, line in imports_of(module)
        if imported.split(".")[0] == "surehand" and (layer := layer_of(imported)) is not None and layer > own
    ]
    assert upward == []


@pytest.mark.parametrize("module", [f"surehand.{name}" for name in LAYERS[2]])
def test_the_loop_reaches_for_nothing_outside_itself(module: str) -> None:
    imported = [f"line {line}: import {name}" for name, line in imports_of(module) if name.split(".")[0] in IO_MODULES]
    called = [
        f"line {node.lineno}: {node.func.id}()"
        for node in ast.walk(TREES[module])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IO_BUILTINS
    ]
    assert imported + called == []


def test_the_error_tree_is_as_drawn() -> None:
    assert _drawn_errors() == {
        error.__name__: {base.__name__ for base in error.__bases__} - {"Exception"} for error in _raised_by_surehand()
    }


def _drawn_errors() -> dict[str, set[str]]:
    """Each name in the drawing with its bases; a second base is written "(also a …)", one outside the tree "(a …)"."""
    drawn: dict[str, set[str]] = {}
    above: list[str] = []
    for line in inspect.cleandoc(errors.__doc__ or "").splitlines():
        found = re.match(r"([│├└─ ]*)(\w+)(?: \((?:also )?an? (\w+)\))?(?: {2,}|$)", line)
        if found is None:
            continue
        branch, name, base = found.groups()
        depth = len(branch) // 4
        parents = above[depth - 1 : depth] if depth else []
        drawn[name] = {*parents, base} - {None}
        above[depth:] = [name]
    return drawn


def _raised_by_surehand() -> list[type[BaseException]]:
    found: list[type[BaseException]] = [errors.SurehandError, errors.Suspended]
    for error in found:
        found += [sub for sub in error.__subclasses__() if sub.__module__.startswith("surehand.") and sub not in found]
    return found


@every_module
def test_a_file_has_at_most_400_lines(module: str) -> None:
    assert len(FILES[module].read_text("utf-8").splitlines()) <= 400


@every_module
def test_a_function_has_at_most_40_lines_besides_its_docstring(module: str) -> None:
    functions = (node for node in ast.walk(TREES[module]) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    lengths = {f"{node.name} (line {node.lineno})": _length(node) for node in functions}
    assert {name: length for name, length in lengths.items() if length > 40} == {}


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = node.body[0]
    documented = ast.get_docstring(node, clean=False) is not None
    docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return (node.end_lineno or 0) - node.lineno + 1 - docstring


def test_importing_surehand_loads_pydantic_and_msgspec_and_nothing_else() -> None:
    script = (
        "import json, sys; before = set(sys.modules); import surehand;"
        "print(json.dumps([name.split('.')[0] for name in set(sys.modules) - before]))"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    loaded = set(json.loads(answer)) - sys.stdlib_module_names - LOADED_WITH_SUREHAND
    assert loaded == set()
