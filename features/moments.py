# SPDX-License-Identifier: Apache-2.0
"""Where the year, month, day … stand in a text of fixed width, for every engine alike."""

import re
from dataclasses import dataclass

WIDTHS = {"Y": 4, "y": 2, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2, "f": 6}
DEFAULTS = {"m": "01", "d": "01", "H": "00", "M": "00", "S": "00", "f": "000000"}


@dataclass(frozen=True)
class TimeLayout:
    """A strptime format of fixed width.

    Attributes:
        pattern: Regular expression (RE2) that every text in this format matches.
        fields: Start and width, in characters, by strptime letter.
    """

    pattern: str
    fields: dict[str, tuple[int, int]]

    @classmethod
    def of(cls, time_format: str) -> "TimeLayout":
        """Return the layout of a strptime format.

        Raises:
            ValueError: A directive has no fixed width, stands twice, or there is no year.
        """
        fields: dict[str, tuple[int, int]] = {}
        pattern, position = "", 0
        for piece in re.findall(r"%.|[^%]", time_format):
            letter = piece[1:]
            if piece == "%%" or not letter:
                pattern += re.escape(piece[-1])
                position += 1
                continue
            if letter not in WIDTHS:
                known = ", ".join(f"%{key}" for key in WIDTHS)
                raise ValueError(f"format {time_format!r}: {piece} is not one of {known}")
            if letter in fields:
                raise ValueError(f"format {time_format!r}: {piece} stands twice")
            fields[letter] = (position, WIDTHS[letter])
            pattern += f"[0-9]{{{WIDTHS[letter]}}}"
            position += WIDTHS[letter]
        if ("Y" in fields) == ("y" in fields):
            raise ValueError(f"format {time_format!r}: needs either %Y or %y")
        return cls(f"^{pattern}$", fields)
