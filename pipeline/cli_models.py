# SPDX-License-Identifier: Apache-2.0
"""Commands about models, before a run and after it; `pipeline.cli` adds them to the others."""

import sys
from pathlib import Path
from typing import Annotated

import typer


def models(
    kind: Annotated[str | None, typer.Argument(help="One kind, with all its options.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List the models: what each takes, its number of weights, its options."""
    from pipeline.cli import prepare, print_result

    prepare()
    from models.registry import MODELS
    from pipeline.model_list import describe, details, overview

    if as_json:
        print_result({name: describe(name) for name in ([kind] if kind else MODELS)})
        return
    sys.stdout.writelines(f"{line}\n" for line in (details(kind) if kind else overview()))


def plan(
    kind: Annotated[str, typer.Argument(help="Kind of model; see clickloom models.")],
    rows: Annotated[int, typer.Option(help="Values of all categorical fields together.")],
    fields: Annotated[int, typer.Option(help="Number of categorical fields.")],
    numbers: Annotated[int, typer.Option(help="Number of numeric features.")] = 0,
    embedding_dim: Annotated[
        int | None, typer.Option(help="Length of each vector; the kind's default if not given.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Option of the kind: key=value.")
    ] = None,
    slots: Annotated[
        int, typer.Option(min=0, help="Numbers that the optimiser keeps per weight; 2 is Adam.")
    ] = 2,
    max_model_memory: Annotated[
        str | None, typer.Option(help="Limit, as engine.max_model_memory in a config.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Count the weights and bytes of a model without data; exit with 2 if it is too large."""
    from pipeline.cli import prepare, print_result

    prepare()
    from pipeline.memory import ModelMemory, require_memory
    from pipeline.plan import plan_lines, planned_size, read_options

    options = read_options(set_ or [])
    if embedding_dim is not None:
        options["embedding_dim"] = embedding_dim
    memory = ModelMemory(planned_size(kind, rows, fields, numbers, options), slots)
    if as_json:
        print_result({"kind": kind, **memory.facts()})
    else:
        sys.stdout.writelines(f"{line}\n" for line in plan_lines(memory))
    require_memory(memory, max_model_memory)


def explain(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a trained run.")],
    row: Annotated[int, typer.Option(help="row_id, as evaluate/predictions has it.")],
    split: Annotated[
        str | None, typer.Option(help="test, valid or train; the one that has the row.")
    ] = None,
    weights: Annotated[
        bool, typer.Option("--weights", help="Also the vectors and weights, to recompute it.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show the terms that one score of a trained run is the sum of."""
    from pipeline.cli import prepare, print_result

    progress = prepare()
    from pipeline.explain import explain as explain_row
    from pipeline.explain_text import explanation_lines

    document = explain_row(run, row, split, weights, progress=progress)
    if as_json:
        print_result(document)
        return
    sys.stdout.writelines(f"{line}\n" for line in explanation_lines(document))
