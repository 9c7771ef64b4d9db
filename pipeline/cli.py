# SPDX-License-Identifier: Apache-2.0
"""The command line: `clickloom …`, also `python -m pipeline …`."""

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from pipeline.cli_models import explain, models, plan
from pipeline.errors import ConfigError, PipelineError, machine_failure
from pipeline.streams import open_closed_streams

app = typer.Typer(
    name="clickloom",
    help="From raw click logs to a served click-through-rate model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

for command in (models, plan, explain):
    app.command()(command)

Config = Annotated[Path, typer.Argument(metavar="CONFIG", help="YAML file of the run.")]
Runs = Annotated[Path, typer.Option("--runs", help="Folder of all runs.")]
Set = Annotated[list[str], typer.Option("--set", help="Override one value: key.path=value.")]
Date = Annotated[str | None, typer.Option("--date", help="Fills {date} in paths; names the run.")]
Compare = Annotated[
    list[Path], typer.Option("--compare", help="Folder of a finished run to show in the report.")
]
RunId = Annotated[str | None, typer.Option("--run-id", help="Name of the run's folder.")]


def main() -> None:
    """Run the command line; exit with the code that says what went wrong."""
    open_closed_streams()
    sys.exit(run_guarded(lambda: app(standalone_mode=False)))


def run_guarded(command: Callable[[], Any]) -> int:
    """Call a command and return its exit code; the only place that catches everything."""
    try:
        code = command()
    except PipelineError as error:
        print_error(str(error))
        if error.result is not None:
            if report := error.result["report"]:
                # whole, as who reads it in a scheduler's mail knows no working folder
                print_error(f"the numbers are in {Path(report).resolve()}")
            print_result(error.result)
        return error.exit_code
    except typer.TyperException as error:
        print_error(f"{error.format_message()}; see clickloom --help")
        return ConfigError.exit_code
    except (typer.Abort, KeyboardInterrupt):
        print_error("interrupted; the same command continues")
        return 128 + signal.SIGINT
    except BrokenPipeError:
        return 0
    except Exception as error:  # noqa: BLE001 - a bug must end with its own exit code
        failure = machine_failure(error)
        if failure is None:
            traceback.print_exc()
        print_error(
            str(failure or "this is a bug in clickloom; what was finished before it stands")
        )
        return failure.exit_code if failure else PipelineError.exit_code
    return code if isinstance(code, int) else 0


def print_error(message: str) -> None:
    """Write an error for people to stderr."""
    sys.stderr.write(f"clickloom: {message}\n")


def print_result(result: dict[str, Any]) -> None:
    """Write the result as one JSON line, the last on stdout."""
    sys.stdout.write(json.dumps(result, allow_nan=False, default=str) + "\n")
    sys.stdout.flush()


def prepare() -> Any:
    """Set up what every command that works needs; return where it reports to."""
    from pipeline.progress import default_progress
    from pipeline.termination import watch_for_termination

    watch_for_termination()
    _import_tensorflow()
    return default_progress()


def _import_tensorflow() -> None:
    """Import TensorFlow without the lines that it writes before it reads its log level.

    They would stand between the JSON lines on stderr. What goes wrong still raises.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        import tensorflow as tf
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)
    tf.get_logger().setLevel("ERROR")  # it warns of shapes that we compile on purpose


def _run(until: str, config: Path, **options: Any) -> None:
    progress = prepare()
    from pipeline.workflow import run

    overrides = options.pop("set_")
    print_result(run(config, overrides=overrides, until=until, progress=progress, **options))  # type: ignore[arg-type]


@app.command()
def run(
    config: Config,
    runs: Runs = Path("runs"),
    set_: Set = [],
    date: Date = None,
    run_id: RunId = None,
    compare: Compare = [],
) -> None:
    """Run all stages: ingest, train, evaluate, export. Finished ones are not run again."""
    _run("export", config, runs=runs, set_=set_, date=date, run_id=run_id, compare=compare)


@app.command()
def ingest(
    config: Config,
    runs: Runs = Path("runs"),
    set_: Set = [],
    date: Date = None,
    run_id: RunId = None,
) -> None:
    """Read, split, fit and encode the data."""
    _run("ingest", config, runs=runs, set_=set_, date=date, run_id=run_id)


@app.command()
def train(
    config: Config,
    runs: Runs = Path("runs"),
    set_: Set = [],
    date: Date = None,
    run_id: RunId = None,
) -> None:
    """Fit the model; ingest first where that is needed."""
    _run("train", config, runs=runs, set_=set_, date=date, run_id=run_id)


@app.command()
def evaluate(
    config: Config,
    runs: Runs = Path("runs"),
    set_: Set = [],
    date: Date = None,
    run_id: RunId = None,
    compare: Compare = [],
) -> None:
    """Score validation and test rows and write the report."""
    _run("evaluate", config, runs=runs, set_=set_, date=date, run_id=run_id, compare=compare)


@app.command()
def export(
    config: Config,
    runs: Runs = Path("runs"),
    set_: Set = [],
    date: Date = None,
    run_id: RunId = None,
    compare: Compare = [],
) -> None:
    """Prove and publish the served model; the same as run."""
    _run("export", config, runs=runs, set_=set_, date=date, run_id=run_id, compare=compare)


@app.command()
def predict(
    bundle: Annotated[Path, typer.Argument(help="Folder of an exported version.")],
    files: Annotated[list[str], typer.Argument(help="Raw files or globs to score.")],
    out: Annotated[Path, typer.Option("--out", help="Parquet file to write.")],
    past: Annotated[
        list[str], typer.Option("--past", help="Earlier files that histories need.")
    ] = [],
    date: Date = None,
) -> None:
    """Score raw files with an exported version, to Parquet, in the order of their rows."""
    progress = prepare()
    from pipeline.predict import predict as score

    print_result(score(bundle, files, out, progress, past, date))


@app.command()
def validate(config: Config, set_: Set = [], date: Date = None) -> None:
    """Check a config against itself and the headers of its data; all problems at once."""
    prepare()
    from pipeline.checks import validate_file

    problems, notes = validate_file(config, set_, date)
    for note in notes:
        sys.stderr.write(f"note: {note}\n")
    if problems:
        raise ConfigError("\n".join(problems))
    from pipeline.config_file import load_config
    from pipeline.memory import describe_memory

    _, memory, facts = describe_memory(load_config(config, set_))
    sys.stderr.write(f"note: {memory}\n")
    print_result({"config": str(config), "status": "valid", "notes": notes, "model": facts})


@app.command()
def init(
    data: Annotated[Path, typer.Argument(help="File of a log, or a glob in quotes.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write; stdout if not given.")
    ] = None,
    source_format: Annotated[
        str | None, typer.Option("--format", help="As data.format, if the ending does not say it.")
    ] = None,
) -> None:
    """Write a starter config from a file's columns, its guesses explained in comments."""
    from pipeline.init import known_format, starter_config
    from pipeline.runs import require_writable

    text = starter_config(data, known_format(source_format))
    if out is None:
        sys.stdout.write(text)
        return
    if out.exists():
        raise ConfigError(f"{out}: exists already; choose another name or move it away")
    require_writable(out.parent, "--out")
    out.write_text(text, encoding="utf-8")
    print_result({"config": str(out)})


@app.command()
def schema() -> None:
    """Print the JSON schema of configs, for editors."""
    prepare()
    from pipeline.config_schema import config_schema

    sys.stdout.write(json.dumps(config_schema(), indent=2) + "\n")


@app.command()
def synth(
    directory: Annotated[Path, typer.Argument(help="Folder to write to.")],
    task: Annotated[
        str,
        typer.Option(
            help="Planted: clicks, pairs, field_aware, few_pairs, interest, order, drift, "
            "key_value, two_hop or long."
        ),
    ] = "clicks",
    impressions: Annotated[
        int | None,
        typer.Option("--impressions", "--rows", help="Rows of the log; the task's when not given."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of all random draws.")] = 7,
    file_format: Annotated[
        str, typer.Option("--format", help="csv, csv.gz, jsonl or parquet.")
    ] = "csv",
) -> None:
    """Write a generated click log with a planted truth, and a config to train on it."""
    from pipeline.planted import generate_log

    print_result(generate_log(directory, task, impressions, seed, file_format))


@app.command()
def demo(
    runs: Runs = Path("runs"),
    data: Annotated[Path, typer.Option(help="Folder of the data.")] = Path("data/quickstart"),
) -> None:
    """Generate a click log, run configs/quickstart.yaml on it, and show what came out."""
    progress = prepare()
    from pipeline.demo import run_demo

    print_result(run_demo(runs, data, progress))


if __name__ == "__main__":
    main()
