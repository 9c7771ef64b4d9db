# SPDX-License-Identifier: Apache-2.0
"""Commands about models, before a run and after it; `pipeline.cli` adds them to the others."""

import sys
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
