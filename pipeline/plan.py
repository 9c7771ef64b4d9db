# SPDX-License-Identifier: Apache-2.0
"""`clickloom plan`: the size of a model on so many features, without data and without building."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from features.schema import MOST_ROWS, Categorical, FeatureSchema, Numeric, Table
from models.registry import MODELS, check
from models.sizes import ModelSize, size_of
from pipeline.checks_model import option_problems
from pipeline.config_yaml import override_value
from pipeline.errors import ConfigError
from pipeline.memory import WEIGHT_BYTES, ModelMemory, format_bytes

_OPTIMISERS = {0: "plain SGD", 1: "one accumulator (AdaGrad)", 2: "two moments (Adam)"}


def planned_size(
    kind: str, rows: int, fields: int, numbers: int = 0, options: Mapping[str, Any] | None = None
) -> ModelSize:
    """Return the size of a model on features that exist in number only.

    Args:
        kind: One of `models.registry.MODELS`.
        rows: Rows of all tables together: values of all categorical fields.
        fields: Categorical fields.
        numbers: Numeric features.
        options: Of the kind.

    Raises:
        ConfigError: There is no such kind, or it cannot be that way.
    """
    section = {"kind": kind, **(options or {})}
    wrong = [f"{'.'.join(map(str, p.path))}: {p.message}" for p in option_problems(section)[0]]
    if wrong:
        raise ConfigError("; ".join(wrong))
    config = MODELS[kind].config.model_validate(dict(options or {}))
    if rows > MOST_ROWS:
        raise ConfigError(f"--rows {rows}: ids are int32, so that {MOST_ROWS:,} are the most")
    try:
        schema = FeatureSchema(  # one table: how fields share the rows out changes no sum
            tables=(Table(name="all", rows=rows),),
            features=(
                *(Categorical(name=f"field_{i}", table="all") for i in range(fields)),
                *(Numeric(name=f"number_{i}") for i in range(numbers)),
            ),
        )
    except ValidationError as error:
        raise ConfigError(f"--rows {rows}: a table has at least 2 rows") from error
    if problems := check(kind, schema, config):
        raise ConfigError("; ".join(problems))
    return size_of(kind, schema, config)


def read_options(settings: Sequence[str]) -> dict[str, Any]:
    """Return `key=value` texts as options of a model, values written as in YAML.

    Raises:
        ConfigError: A text has no equals sign.
    """
    options = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise ConfigError(f"--set {setting}: expected key=value, such as embedding_dim=8")
        options[key] = override_value(text)
    return options


def plan_lines(memory: ModelMemory) -> Iterator[str]:
    """Yield the lines of a plan: weights by part, and bytes under optimisers of all kinds."""
    size = memory.size
    parts = {
        "vectors": size.vectors,
        "linear weights": size.linear,
        "layers": size.dense,
        "all weights": size.total,
    }
    digits = len(f"{size.total:,}")
    for name, count in parts.items():
        share = f"{count / size.total:6.1%}"
        yield f"{name:15} {count:{digits},} = {format_bytes(count * WEIGHT_BYTES):>11} {share}"
    for slots, name in _OPTIMISERS.items():
        need = ModelMemory(size, slots).training
        yield f"in training with {name:26} {format_bytes(need):>11}"
