# SPDX-License-Identifier: Apache-2.0
"""The standard streams, which whoever starts a process may have closed."""

import os
import sys


def open_closed_streams() -> None:
    """Lead the standard streams that are closed to nowhere; call it before any file is opened.

    The first file that is opened would have the number of the stream, and what libraries write to
    stderr would end in it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # the lowest number that is free, which is the stream's as those before it are open
            number = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))
