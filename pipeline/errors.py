# SPDX-License-Identifier: Apache-2.0
"""What can go wrong in a run, and the exit code that says so to a scheduler."""

import errno
import os
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


class MachineFailed(PipelineError):
    """The machine gave out: a full or read-only disk, missing rights, no more memory."""

    exit_code = 74


class RunLocked(PipelineError):
    """Another process works on a run of this name."""

    exit_code = 75


class Terminated(PipelineError):
    """A termination signal arrived; the same command continues from the last checkpoint."""

    exit_code = 143
    status = "terminated"


_NUMBERS = (
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO,
    errno.ENOMEM, errno.EMFILE, errno.ENFILE,
)  # fmt: skip
_TEXTS = tuple(os.strerror(number).lower() for number in _NUMBERS)


def machine_failure(error: BaseException) -> MachineFailed | None:
    """Return what to say of an error that is the machine's and no bug, or None.

    DuckDB, Arrow and TensorFlow have errors of their own for a full disk; what they share is the
    operating system's text.
    """
    text = str(error).partition("\n")[0]
    if isinstance(error, MemoryError):
        text = text or os.strerror(errno.ENOMEM)
    elif isinstance(error, OSError) and error.errno is not None:
        if error.errno not in _NUMBERS:
            return None
    elif not (any(reason in text.lower() for reason in _TEXTS) or _is_short_write(error)):
        return None
    return MachineFailed(
        f"{text}; make room or give rights, then the same command continues: what was finished "
        "before stands"
    )


def _is_short_write(error: BaseException) -> bool:
    """Whether NumPy could not write an array to its end, of which it tells no more."""
    return isinstance(error, OSError) and "requested and" in str(error)
