# SPDX-License-Identifier: Apache-2.0
"""Large blocks of memory that are used again instead of returned to the system."""

import ctypes
import sys
from functools import cache

LARGE = 32 * 2**20
"""Bytes above which glibc asks the system for each block, and returns it when it is freed."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of glibc's malloc.h


@cache
def keep_large_blocks() -> None:
    """Let glibc keep large blocks that are freed; other allocators do so, or are left alone.

    A tensor above `LARGE` would be made of new pages at each step, every one of which the system
    clears: that took half the time of FFM's step at a batch of 4,096. One arena, because those of
    further threads hold no large block.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt:  # musl has none
        mallopt(_MMAP_THRESHOLD, 2**30)
        mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        mallopt(_ARENA_MAX, 1)
