# SPDX-License-Identifier: Apache-2.0
"""What can go wrong in a run, and the exit code that says so to a scheduler."""

from typing import Any, ClassVar


class PipelineError(Exception):
    """Base of the errors that the command line turns into an exit code and one plain message."""

    exit_code: ClassVar[int] = 1
    status: ClassVar[str] = "failed"
    """How the result line and the report call a run that ends so."""
    result: dict[str, Any] | None = None
    """What the run had reached, for the result line."""


class ConfigError(PipelineError):
    """The command line or the config is wrong; nothing was read or written."""

    exit_code = 2


class InputRejected(PipelineError):
    """The data cannot be used as the config describes them."""

    exit_code = 3
    status = "rejected"


class GateFailed(PipelineError):
    """The model was trained and evaluated, but is not good enough to publish."""

    exit_code = 4
    status = "gate_failed"


class DriftDetected(PipelineError):
    """The newest rows differ more from the training rows than the config allows."""

    exit_code = 5
    status = "drift"


class TrainingDiverged(PipelineError):
    """The loss or a weight stopped being a finite number."""

    exit_code = 6
    status = "diverged"


class RunLocked(PipelineError):
    """Another process works on a run of this name."""

    exit_code = 75


class Terminated(PipelineError):
    """A termination signal arrived; the same command continues from the last checkpoint."""

    exit_code = 143
    status = "terminated"
