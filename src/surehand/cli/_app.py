"""The commands, as typer sees them."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from .. import ChatModel, SurehandError
from .._codec import to_json
from ._demo import run_demo, why_no_runtime
from ._demo_screen import Screen
from ._journal import journal_app
from ._recover import recover, resume
from ._runs import runs, show
from ._text import shown
from ._unknowns import resolve, unknowns

__all__ = ["app", "run"]

app = typer.Typer(
    name="surehand",
    help="Runs the tool calls of language models: never twice, never lost, always accounted for.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
model_app = typer.Typer(help="The embedded model.", no_args_is_help=True)
app.add_typer(model_app, name="model")
app.add_typer(journal_app, name="journal")
for _command in (runs, show, recover, resume, unknowns, resolve):
    app.command()(_command)

# How long each action of the demonstration's world takes when a person watches.
_WATCHABLE = 0.4


def run(arguments: list[str]) -> int:
    """Run the command; gives the exit code. A failure that surehand explains is told in a sentence."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a path or a model may say what the terminal cannot show
    try:
        app(arguments, prog_name="surehand", standalone_mode=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except SurehandError as error:
        sys.stderr.write(f"surehand: {shown(str(error))}\n")  # it may quote what a model wrote
        return 1
    return 0


def _say_version(wanted: bool) -> None:
    if not wanted:
        return
    try:
        typer.echo(f"surehand {version('surehand')}")
    except PackageNotFoundError:
        typer.echo("surehand, from files that are not installed as a package")
    raise typer.Exit


@app.callback()
def _surehand(  # pyright: ignore[reportUnusedFunction]  # typer calls it
    _version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@model_app.command("install")
def install_model(
    target: Annotated[
        Path | None, typer.Option("--target", help="Directory for the weights, instead of the user's cache.")
    ] = None,
) -> None:
    """Fetch the weights of the embedded model (93 MB, SmolLM2-135M, Apache-2.0), once; then they are there."""
    from ..models._weights import install

    console = Console()
    screen = Screen(console, plain=not console.is_terminal)
    with screen.working("installing the embedded model"):
        install(target, progress=screen.say)


@app.command()
def demo(
    plain: Annotated[bool, typer.Option("--plain", help="No colours, no motion, no waiting.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Write what was done as JSON to the standard output, the rest elsewhere.")
    ] = False,
) -> None:
    """See an agent work with a real model on this machine, and a trip that fails being taken back. Needs no key."""
    console = Console(stderr=json)
    plain = plain or json or not console.is_terminal
    if plain:
        console = Console(stderr=json, color_system=None, force_terminal=False)
    screen = Screen(console, plain=plain)
    model = _embedded_model(screen)
    try:
        report = run_demo(screen, model, delay=0.0 if plain else _WATCHABLE)
    finally:
        if model is not None:
            model.close()
    if json:
        typer.echo(to_json(report).decode())
    screen.say("")
    screen.say(report.line, style="dim")


def _embedded_model(screen: Screen) -> ChatModel | None:
    why = why_no_runtime()
    if why is not None:
        screen.say(f"The runtime of the embedded model cannot be used here ({why}).")
        screen.say("Where a wheel exists, the extra `local` brings it. Both acts are scripted now.")
        screen.say("")
        return None
    from ..models.local import LocalModel

    model = LocalModel()
    with screen.working("loading the embedded model"):
        model.load()
    return model
