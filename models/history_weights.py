# SPDX-License-Identifier: Apache-2.0
"""What the weights of past events are, in words: reports and explanations show them with these."""

import math
from dataclasses import dataclass

ONE = (1.0, 1.0)
UP_TO_ONE = (0.0, 1.0)
ANY = (-math.inf, math.inf)

NO_EXPLANATION = (
    "A weight does not explain the score by itself. What it multiplies may be small or point "
    "either way, the layers behind it may undo it, and other weights can give the same score. It "
    "does not say what the score would be without the event, and nothing here is about causes."
)
"""Holds for every model, and is shown with the caption of each."""


@dataclass(frozen=True)
class WeightsMeaning:
    """What the numbers of `CTRModel.history_weights` are.

    Attributes:
        caption: In sentences, with what they add up to.
        line: What each line of them is of, such as "head" or "hop"; empty where there is one.
        total: Smallest and largest sum of a line's weights, where the history has events.
    """

    caption: str
    line: str = ""
    total: tuple[float, float] = ONE

    def lines(self, count: int) -> list[str]:
        """Return the names of so many lines."""
        return [f"{self.line} {i + 1}" for i in range(count)] if self.line else ["weight"]


def last_of(count: int, things: str) -> str:
    """Return in words which of so many layers, blocks or the like is the last one.

    Args:
        count: How many there are, 1 or more.
        things: What they are, as a plural with an s.
    """
    return f"the only {things[:-1]}" if count == 1 else f"the last of {count} {things}"
