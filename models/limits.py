# SPDX-License-Identifier: Apache-2.0
"""What options may be at most, so that any model can be counted, in 64 bits, before it is built."""

from typing import Annotated

from pydantic import Field

Width = Annotated[int, Field(ge=1, le=100_000)]
"""Width of a layer, or length of a vector or a memory."""
MOST_REPEATS = 50
Repeats = Annotated[int, Field(ge=1, le=MOST_REPEATS)]
"""How many layers, or other parts that are built one by one, a model has."""
Several = Annotated[int, Field(ge=1, le=1_000)]
"""How many heads, draws or other parts a layer has."""
