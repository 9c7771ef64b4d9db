# SPDX-License-Identifier: Apache-2.0
"""The base of everything that a config holds."""

from collections.abc import Iterator
from typing import Any, Self, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import InitErrorDetails

_TOO_LARGE = 2**63
"""The first whole number that 64 bits cannot hold."""


class Options(BaseModel):
    """Options by name: frozen, unknown ones refused, numbers finite, no true or false."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _true_is_no_number(cls, content: Any) -> Any:
        given = content if isinstance(content, dict) else {}
        wrong: list[InitErrorDetails] = []
        for name, field in cls.model_fields.items():
            types = _types_in(field.annotation)
            if bool not in types and types & {int, float}:
                expected = "int_type" if int in types else "float_type"
                for place, value in _bools(given.get(name), (name,)):
                    wrong.append(InitErrorDetails(type=expected, loc=place, input=value))
        if wrong:
            raise ValidationError.from_exception_data(cls.__name__, wrong)
        return content

    @model_validator(mode="after")
    def _whole_numbers_are_of_64_bits(self) -> Self:
        wrong = [
            InitErrorDetails(type="less_than", loc=(name,), input=value, ctx={"lt": _TOO_LARGE})
            for name in type(self).model_fields
            if isinstance(value := getattr(self, name), int) and value >= _TOO_LARGE
        ]
        if wrong:
            raise ValidationError.from_exception_data(type(self).__name__, wrong)
        return self


def _types_in(annotation: Any) -> set[type]:
    """Return the types that an annotation, or a value of a Literal, is made of."""
    own = annotation if isinstance(annotation, type) else type(annotation)
    return {own}.union(*map(_types_in, get_args(annotation)))


def _bools(value: Any, place: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield each true or false in a value, with its place."""
    match value:
        case bool():
            yield place, value
        case dict():
            for key, part in value.items():
                yield from _bools(part, (*place, key))
        case list() | tuple():
            for key, part in enumerate(value):
                yield from _bools(part, (*place, key))
