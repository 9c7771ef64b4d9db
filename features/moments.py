# SPDX-License-Identifier: Apache-2.0
"""How moments are written as text: patterns and positions, for every engine alike."""

import re
from dataclasses import dataclass

_YEAR, _MONTH, _DAY = "[0-9]{4}", "(?:0[1-9]|1[0-2])", "(?:0[1-9]|[12][0-9]|3[01])"
_HOUR, _SIXTY = "(?:[01][0-9]|2[0-3])", "[0-5][0-9]"
_FIELDS = {
    "Y": (4, _YEAR), "y": (2, "[0-9]{2}"), "m": (2, _MONTH), "d": (2, _DAY), "H": (2, _HOUR),
    "M": (2, _SIXTY), "S": (2, _SIXTY), "f": (6, "[0-9]{6}"),
}  # fmt: skip
DEFAULTS = {"m": "01", "d": "01", "H": "00", "M": "00", "S": "00", "f": "000000"}

ISO_PATTERN = (
    f"^({_YEAR}-{_MONTH}-{_DAY}(?:[ T]{_HOUR}:{_SIXTY}(?::{_SIXTY}(?:[.][0-9]+)?)?)?)"
    f" ?(Z|UTC|[+-]{_HOUR}(?::?{_SIXTY})?)?$"
)
"""ISO 8601 (RE2): group 1 is the local date or moment, group 2 the zone, UTC if not written."""


@dataclass(frozen=True)
class TimeLayout:
    """A strptime format of fixed width.

    Attributes:
        pattern: Regular expression (RE2) of every text in this format; it knows no lengths of
            months.
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
        for piece in re.findall(r"(?s)%.?|[^%]", time_format):
            letter = piece[1:]
            if piece == "%%" or piece[0] != "%":
                pattern += re.escape(piece[-1])
                position += 1
                continue
            if letter not in _FIELDS:
                known = ", ".join(f"%{key}" for key in _FIELDS)
                raise ValueError(f"format {time_format!r}: {piece} is not one of {known}")
            if letter in fields:
                raise ValueError(f"format {time_format!r}: {piece} stands twice")
            width, digits = _FIELDS[letter]
            fields[letter] = (position, width)
            pattern += digits
            position += width
        if ("Y" in fields) == ("y" in fields):
            raise ValueError(f"format {time_format!r}: needs either %Y or %y")
        return cls(f"^{pattern}$", fields)
