# SPDX-License-Identifier: Apache-2.0
"""Runs, stages and the command line; `from pipeline import run` runs a config."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.workflow import run as run

__all__ = ["run"]


def __getattr__(name: str) -> Any:
    # loaded on use: the stages import TensorFlow, which `clickloom --help` must not
    if name == "run":
        from pipeline.workflow import run

        return run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
