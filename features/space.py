# SPDX-License-Identifier: Apache-2.0
"""The feature space: everything that was fitted, in one folder, and what models see of it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ibis
from pydantic import TypeAdapter

from features.encode import count_values, past_events
from features.gaps import GAP_ROWS
from features.inputs import RawInput, input_names, raw_inputs
from features.numeric import (
    BucketFit,
    NumericFit,
    bucket_statistics,
    fit_buckets,
    fit_numeric,
    numeric_statistics,
)
from features.schema import (
    FIRST_UNKNOWN,
    Categorical,
    CategoricalList,
    Channel,
    Feature,
    FeatureSchema,
    History,
    Numeric,
    Table,
)
from features.specs import (
    PART_SIZES,
    BucketedSpec,
    CategoricalSpec,
    DatetimeSpec,
    FeatureSpec,
    HistorySpec,
    IdSpec,
    NumericSpec,
    Specs,
    channel_name,
    gap_name,
    is_past_only,
    missing_flag_name,
    table_of,
)
from features.vocabulary import Vocabulary

_VERSION = 1
_SPECS: TypeAdapter[dict[str, FeatureSpec]] = TypeAdapter(dict[str, FeatureSpec])


def schema_of(specs: Specs, rows_of: Callable[[str], int]) -> FeatureSchema:
    """Return what models see of declared features.

    Args:
        specs: The declared features.
        rows_of: Number of ids of a table by name, reserved ones included.
    """
    features = [feature for name in specs for feature in _features_of(name, specs)]
    tables = [table for name in specs for table in _tables_of(name, specs, rows_of)]
    return FeatureSchema(tables=tuple(tables), features=tuple(features))


def _tables_of(name: str, specs: Specs, rows_of: Callable[[str], int]) -> list[Table]:
    """Return the tables of a feature's own."""
    match specs[name]:
        case HistorySpec(time_gap=True):
            return [Table(name=gap_name(name), rows=GAP_ROWS)]
        case IdSpec() if table_of(name, specs) == name:
            return [Table(name=name, rows=rows_of(name))]
    return []


def _features_of(name: str, specs: Specs) -> list[Feature]:
    spec = specs[name]
    if is_past_only(spec):
        return []
    match spec:
        case NumericSpec():
            flag = [Numeric(name=missing_flag_name(name))] if spec.missing_flag else []
            return [Numeric(name=name), *flag]
        case HistorySpec():
            channels = tuple(
                Channel(
                    name=channel_name(name, f),
                    table=table_of(f, specs),
                    target=None if is_past_only(specs[f]) else f,
                )
                for f in spec.of
            )
            if spec.time_gap:
                gap = gap_name(name)
                channels += (Channel(name=gap, table=gap, time_gap=True),)
            return [History(name=name, channels=channels, max_items=spec.max_items)]
        case CategoricalSpec(separator=str()):
            weighted = spec.weight_separator is not None
            table = table_of(name, specs)
            return [
                CategoricalList(name=name, table=table, max_items=spec.max_items, weighted=weighted)
            ]
        case _:
            return [Categorical(name=name, table=table_of(name, specs))]


@dataclass(frozen=True)
class FeatureSpace:
    """Specs of the features and what the training rows taught about them.

    Attributes:
        specs: The declared features, in order.
        vocabularies: By table; tables of hashed values have none.
        numbers: By numeric feature.
        buckets: By bucketed feature.
    """

    specs: Specs
    vocabularies: Mapping[str, Vocabulary] = field(default_factory=dict)
    numbers: Mapping[str, NumericFit] = field(default_factory=dict)
    buckets: Mapping[str, BucketFit] = field(default_factory=dict)

    @classmethod
    def fit(cls, rows: Any, specs: Specs, log: Any = None) -> "FeatureSpace":
        """Fit vocabularies, statistics and edges on typed training rows.

        What only past events have is fitted on the events in the histories of these rows.

        Args:
            rows: Ibis table with the raw inputs of all features (`features.inputs.raw_inputs`).
            specs: The declared features.
            log: All typed rows, with every event that histories may hold; `rows` if not given.
        """
        log = rows if log is None else log
        sources = {
            feature: past_events(log, rows, feature, specs) if is_past_only(spec) else rows
            for feature, spec in specs.items()
        }
        statistics = _statistics(sources, specs)
        numbers, buckets = {}, {}
        for feature, spec in specs.items():
            if isinstance(spec, NumericSpec):
                numbers[feature] = fit_numeric(spec, statistics[feature])
            elif isinstance(spec, BucketedSpec):
                buckets[feature] = fit_buckets(spec, statistics[feature])
        return cls(specs, _fit_vocabularies(sources, specs), numbers, buckets)

    @property
    def inputs(self) -> tuple[RawInput, ...]:
        """The raw inputs of all features but histories."""
        return raw_inputs(self.specs)

    @property
    def schema(self) -> FeatureSchema:
        """What models see."""
        return schema_of(self.specs, self.table_rows)

    def table_rows(self, table: str) -> int:
        """Return the number of ids of a table, reserved ones included."""
        match self.specs[table]:
            case CategoricalSpec(hash_buckets=int(buckets)):
                return FIRST_UNKNOWN + buckets
            case DatetimeSpec(part=part):
                return FIRST_UNKNOWN + PART_SIZES[part]
            case BucketedSpec():
                return self.buckets[table].rows
            case _:
                return self.vocabularies[table].rows

    def save(self, folder: Path) -> None:
        """Write `features.json`, `schema.json` and `vocabularies/<table>.parquet`."""
        vocabularies = folder / "vocabularies"
        vocabularies.mkdir(parents=True, exist_ok=True)
        for table, vocabulary in self.vocabularies.items():
            vocabulary.save(vocabularies / f"{table}.parquet")
        document = {
            "version": _VERSION,
            "specs": {k: spec.model_dump(mode="json") for k, spec in self.specs.items()},
            "numbers": {k: fit.model_dump() for k, fit in self.numbers.items()},
            "buckets": {k: fit.model_dump(mode="json") for k, fit in self.buckets.items()},
        }
        (folder / "features.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
        (folder / "schema.json").write_text(self.schema.model_dump_json(indent=1), "utf-8")

    @classmethod
    def load(cls, folder: Path) -> "FeatureSpace":
        """Read what `save` wrote.

        Raises:
            ValueError: The folder was written by another version of the format.
        """
        document = json.loads((folder / "features.json").read_text(encoding="utf-8"))
        if document["version"] != _VERSION:
            raise ValueError(
                f"{folder}: feature space version {document['version']}, expected {_VERSION}; "
                "run ingest again"
            )
        specs = _SPECS.validate_python(document["specs"])
        return cls(
            specs,
            {
                table: Vocabulary.load(folder / "vocabularies" / f"{table}.parquet")
                for table in _fitted_tables(specs)
            },
            {k: NumericFit.model_validate(fit) for k, fit in document["numbers"].items()},
            {k: BucketFit.model_validate(fit) for k, fit in document["buckets"].items()},
        )


def _statistics(sources: Mapping[str, Any], specs: Specs) -> dict[str, dict[str, Any]]:
    """Compute the aggregates of numeric and bucketed features, one query for all of the rows."""
    of_rows = [feature for feature, spec in specs.items() if not is_past_only(spec)]
    of_events = [[feature] for feature, spec in specs.items() if is_past_only(spec)]
    result: dict[str, dict[str, Any]] = {}
    for features in (of_rows, *of_events):
        result |= _aggregated(sources, {feature: specs[feature] for feature in features}, specs)
    return result


def _aggregated(
    sources: Mapping[str, Any], features: Specs, specs: Specs
) -> dict[str, dict[str, Any]]:
    """Compute the aggregates of features with one source in one query."""
    names = input_names(specs)
    wanted: dict[tuple[str, str], Any] = {}
    for feature, spec in features.items():
        if isinstance(spec, NumericSpec):
            found = numeric_statistics(sources[feature][names[feature]], spec)
        elif isinstance(spec, BucketedSpec):
            found = bucket_statistics(sources[feature][names[feature]], spec)
        else:
            continue
        wanted |= {(feature, key): expression for key, expression in found.items()}
    result: dict[str, dict[str, Any]] = {feature: {} for feature in features}
    if not wanted:
        return result
    aggregates = {f"a{i}": expression for i, expression in enumerate(wanted.values())}
    rows = sources[next(iter(wanted))[0]]
    values = rows.aggregate(**aggregates).to_pyarrow().to_pylist()[0]
    for (feature, key), value in zip(wanted, values.values(), strict=True):
        result[feature][key] = value
    return result


def _fitted_tables(specs: Specs) -> dict[str, CategoricalSpec]:
    """Return the features with a vocabulary of their own; hashed values have none."""
    return {
        name: spec
        for name, spec in specs.items()
        if isinstance(spec, CategoricalSpec) and not spec.table and not spec.hash_buckets
    }


def _fit_vocabularies(sources: Mapping[str, Any], specs: Specs) -> dict[str, Vocabulary]:
    names = input_names(specs)
    vocabularies = {}
    for table, spec in _fitted_tables(specs).items():
        # features of rows that read one column count it once
        columns = {
            (names[f], f if is_past_only(specs[f]) else None): sources[f][names[f]]
            for f in specs
            if table_of(f, specs) == table
        }
        counts = ibis.union(*map(count_values, columns.values()), distinct=False)
        total = counts.group_by("value").agg(count=counts["count"].sum().cast("int64"))
        vocabularies[table] = Vocabulary.fit(
            total.to_pyarrow(), spec.min_count, spec.max_size, spec.num_oov
        )
    return vocabularies
