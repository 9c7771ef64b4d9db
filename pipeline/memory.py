# SPDX-License-Identifier: Apache-2.0
"""The memory that a model takes in training: said, and limited, before it is built."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from features.schema import FIRST_UNKNOWN, MOST_ROWS, FeatureSchema
from features.space import schema_of
from features.specs import PART_SIZES, BucketedSpec, CategoricalSpec, DatetimeSpec, Specs
from models.sizes import ModelSize, size_of
from pipeline.config import FORMS, MEMORY, RunConfig
from pipeline.errors import ConfigError
from pipeline.optimizers import table_optimizer
from pipeline.trained_model import split_kind

WEIGHT_BYTES = 4
"""Of a float32."""
_UNITS = {"MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_SHOWN = 3
"""Largest tables that a message names."""


@dataclass(frozen=True)
class ModelMemory:
    """What a model takes: float32 weights, and as many numbers per weight as an optimiser keeps.

    Attributes:
        size: Weights by part.
        slots: Numbers that the optimiser keeps for each weight.
    """

    size: ModelSize
    slots: int

    @property
    def weights(self) -> int:
        """Bytes of the weights alone."""
        return self.size.total * WEIGHT_BYTES

    @property
    def training(self) -> int:
        """Bytes of the weights and of what the optimiser keeps."""
        return self.weights * (1 + self.slots)

    def on(self, schema: FeatureSchema) -> "ModelMemory":
        """Return what the model takes where tables have the rows of `schema`; no layer changes."""
        tables = {table.name: table.rows for table in schema.tables}
        return replace(self, size=replace(self.size, tables=tables))

    def facts(self) -> dict[str, Any]:
        """Return the numbers for JSON."""
        return {
            "weights": self.size.total,
            "vectors": self.size.vectors,
            "linear": self.size.linear,
            "layers": self.size.dense,
            "bytes": self.weights,
            "training_bytes": self.training,
            "slots": self.slots,
        }

    def summary(self) -> str:
        """Say the numbers in one line."""
        return (
            f"{self.size.total:,} weights = {format_bytes(self.weights)}; "
            f"{format_bytes(self.training)} in training, where the optimiser keeps {self.slots} "
            "more numbers per weight"
        )

    def largest(self) -> str:
        """Name the parts that take most, with their shares."""
        parts = {
            f"table {name} ({rows:,} rows × {self.size.width:,})": rows * self.size.width
            for name, rows in self.size.tables.items()
        }
        parts["layers"] = self.size.dense
        ordered = sorted(parts.items(), key=lambda part: -part[1])[:_SHOWN]
        return ", ".join(f"{name} {count / self.size.total:.1%}" for name, count in ordered)


def row_slots(config: RunConfig) -> int:
    """Return how many numbers the run's optimiser keeps for each weight of a table."""
    return len(table_optimizer(config.train).slot_values)


def config_memory(config: RunConfig) -> tuple[ModelMemory, list[str]]:
    """Return what a config's model takes at least, and the tables whose size data will tell."""
    sizes = {
        name: table_size(spec)
        for name, spec in config.features.items()
        if isinstance(spec, CategoricalSpec | BucketedSpec | DatetimeSpec)
    }
    memory = schema_memory(config, schema_of(config.features, lambda table: sizes[table][0]))
    unknown = {name for name, (_, exact) in sizes.items() if not exact}
    return memory, [name for name in memory.size.tables if name in unknown]


def describe_memory(config: RunConfig) -> tuple[ModelMemory, str, dict[str, Any]]:
    """Return what a config's model takes, as far as it is known without data.

    Returns:
        What it takes at least; the same in a line, and in numbers for JSON.

    Raises:
        ConfigError: It takes more than the config allows even with the smallest tables.
    """
    memory, unknown = config_memory(config)
    require_memory(memory, config.engine.max_model_memory, config.features)
    facts = {**memory.facts(), "unknown_tables": unknown}
    if not unknown:
        return memory, f"the model has {memory.summary()}", facts
    facts["bytes_per_value"] = memory.size.width * WEIGHT_BYTES
    facts["training_bytes_per_value"] = facts["bytes_per_value"] * (1 + memory.slots)
    line = (
        f"the model has at least {memory.summary()}; how many values {', '.join(unknown)} have "
        f"only data can tell, each is {format_bytes(facts['bytes_per_value'])}, "
        f"{format_bytes(facts['training_bytes_per_value'])} in training"
    )
    return memory, line, facts


def schema_memory(config: RunConfig, schema: FeatureSchema) -> ModelMemory:
    """Return what a config's model takes on these features.

    Raises:
        ConfigError: Their tables have more rows than any model can have.
    """
    kind, options = split_kind(config.model)
    try:
        size = size_of(kind, schema, options)
    except ValueError as error:  # more rows than int32 can count
        raise ConfigError(f"the model is too large: {error}") from error
    return ModelMemory(size, row_slots(config))


def table_size(spec: CategoricalSpec | BucketedSpec | DatetimeSpec) -> tuple[int, bool]:
    """Return the least number of rows that a feature's own table will have, and if it is exact."""
    match spec:
        case CategoricalSpec(hash_buckets=int(buckets)):
            return FIRST_UNKNOWN + buckets, True
        case DatetimeSpec(part=part):
            return FIRST_UNKNOWN + PART_SIZES[part], True
        case BucketedSpec(edges=tuple(edges)):
            return FIRST_UNKNOWN + len(edges) + 1, True
        case CategoricalSpec(num_oov=unknown):
            return FIRST_UNKNOWN + unknown, False
        case _:
            return FIRST_UNKNOWN + 1, False


def require_memory(memory: ModelMemory, limit: str | None, specs: Specs | None = None) -> None:
    """Check that a model may be built.

    Args:
        memory: What it takes.
        limit: `engine.max_model_memory`.
        specs: The declared features, to say what makes their tables smaller.

    Raises:
        ConfigError: It takes more than that, or its tables have more rows than int32 counts.
    """
    if memory.size.rows > MOST_ROWS:
        raise ConfigError(
            f"the model is too large: its tables have {memory.size.rows:,} rows, ids are int32, so "
            f"that {MOST_ROWS:,} are the most. Largest: {memory.largest()}. What helps: "
            f"{'; '.join(_remedies(memory.size, specs))}"
        )
    most = parse_bytes(limit) if limit else half_of_machine()
    if memory.training <= most:
        return
    source = limit or f"half of this machine's memory, {format_bytes(most)}"
    raise ConfigError(
        f"the model is too large: {memory.summary()}; engine.max_model_memory is {source}. "
        f"Largest: {memory.largest()}. What helps: {'; '.join(_remedies(memory.size, specs))}; "
        "a higher engine.max_model_memory if the machine has more"
    )


def _remedies(size: ModelSize, specs: Specs | None) -> Iterator[str]:
    biggest = max(size.tables, key=lambda name: size.tables[name], default=None)
    if biggest is not None and size.rows * size.width > size.dense:
        spec = (specs or {}).get(biggest)
        if isinstance(spec, CategoricalSpec) and spec.hash_buckets:
            yield f"fewer features.{biggest}.hash_buckets"
        elif isinstance(spec, CategoricalSpec):
            yield f"min_count, max_size or hash_buckets for features.{biggest}"
        else:
            yield "fewer values: min_count, max_size or hash_buckets"
        if size.width > 1:
            yield "a smaller model.embedding_dim"
        yield "fewer features"
    else:
        yield "smaller hidden layers; a smaller model.embedding_dim; fewer features"


def half_of_machine() -> int:
    """Return half the bytes of memory that this machine, or this process's group, has."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in map(Path, _CGROUPS):
        if path.exists() and (text := path.read_text(encoding="utf-8").strip()).isdigit():
            sizes.append(int(text))
    return min(sizes) // 2


def parse_bytes(text: str) -> int:
    """Return the bytes of a text such as 8GB or 512 MiB.

    Raises:
        ConfigError: It is no such text.
    """
    found = re.fullmatch(MEMORY, text)
    if found is None:
        raise ConfigError(f"expected {FORMS[MEMORY]}; got {text!r}")
    return int(float(found[1]) * _UNITS[found[2]])


def format_bytes(count: int) -> str:
    """Write bytes with one decimal in the largest decimal unit that fits."""
    for power, unit in ((12, "TB"), (9, "GB"), (6, "MB"), (3, "kB")):
        if count >= 10**power:
            return f"{count / 10**power:,.1f} {unit}"
    return f"{count} bytes"
