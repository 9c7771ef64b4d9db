# SPDX-License-Identifier: Apache-2.0
"""SIGTERM: finish the step and write a checkpoint where that is possible, else stop at once.

Python runs signal handlers between two bytecodes, so a long query or a compilation would hold a
handler up. A thread waits for the signal instead.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pipeline.errors import Terminated

GRACE_S = 20.0
"""How long a stage that checks `termination_requested` may take before it is stopped."""

_requested = threading.Event()
_checked = threading.Event()


def watch_for_termination() -> None:
    """Start to wait for SIGTERM; call once, before other threads start."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    # of its own, as stderr leads nowhere while TensorFlow is imported
    stderr = os.dup(2)
    threading.Thread(target=_wait, args=(stderr,), name="termination", daemon=True).start()


def _wait(stderr: int) -> None:
    signal.sigwait({signal.SIGTERM})
    _requested.set()
    if _checked.is_set():
        threading.Event().wait(GRACE_S)
    # stages are written beside their place, so what stands is whole; nothing is cleaned up here
    with suppress(OSError):  # whoever read stderr may be gone, which must not keep the process
        os.write(
            stderr, b"clickloom: terminated; the same command runs the interrupted stage again\n"
        )
    os._exit(Terminated.exit_code)


@contextmanager
def termination_checked() -> Iterator[None]:
    """Promise that the body calls `termination_requested` often."""
    _checked.set()
    try:
        yield
    finally:
        _checked.clear()


def termination_requested() -> bool:
    """Return whether SIGTERM has arrived."""
    return _requested.is_set()
