# SPDX-License-Identifier: Apache-2.0
"""Large blocks of memory that are used again instead of returned to the system."""

import ctypes
import sys
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of glibc's malloc.h


@cache
def keep_large_blocks() -> None:
    """Let glibc keep large blocks that are freed; other allocators do so, or are left alone.

    glibc asks the system for each block above 32 MiB, and returns it when it is freed. A step's
    large tensors, and the one block that XLA computes in, would be made of new pages every time,
    which the system clears first: that took a fifth of FM's step at a batch of 4,096, a third of
    DeepFM's and half of FFM's. One arena, because those of further threads hold no large block.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt:  # musl has none
        mallopt(_MMAP_THRESHOLD, 2**30)
        mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        mallopt(_ARENA_MAX, 1)
