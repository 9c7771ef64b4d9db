# SPDX-License-Identifier: Apache-2.0
"""The data profile: what each feature looks like in each part of the data."""

from collections.abc import Mapping
from typing import Any

from features.encode import cut_column
from features.inputs import input_names
from features.schema import MISSING, Categorical, Feature, Numeric, length_key
from features.space import FeatureSpace
from features.splits import SPLITS, TRAIN

Facts = dict[str, Any]


def profile_dataset(rows: Any, encoded: Any, space: FeatureSpace) -> Facts:
    """Count missing, unknown and known values of every feature in every part.

    Args:
        rows: Typed rows with `_split`.
        encoded: The same rows encoded.
        space: The fitted feature space.

    Returns:
        JSON-like `{"columns": [{"feature", "kind", "rows", …}]}`; shares are of rows, `rows` and
        counts are of the training part.
    """
    features = [f for f in space.schema.features if not _is_flag(f, space)]
    numeric = [feature.name for feature in features if isinstance(feature, Numeric)]
    names = {feature.name: feature.name for feature in features} | input_names(space.specs)
    missing = {f"{name} missing": rows[names[name]].isnull().sum() for name in numeric}
    counted = {
        f"{feature.name} {key}": expression
        for feature in features
        for key, expression in _aggregates(encoded, feature, space, names).items()
    }
    parts: dict[str, Facts] = {}
    for table, aggregates in ((rows, missing), (encoded, counted)):
        grouped = table.group_by("_split").agg(rows=table.count(), **aggregates)
        for row in grouped.to_pyarrow().to_pylist():
            parts.setdefault(row["_split"], {}).update(row)
    return {"columns": [_column(feature, parts, space) for feature in features]}


def _is_flag(feature: Feature, space: FeatureSpace) -> bool:
    """Return whether a feature only says where another is missing."""
    return isinstance(feature, Numeric) and feature.name not in space.numbers


def _aggregates(
    encoded: Any, feature: Feature, space: FeatureSpace, names: Mapping[str, str]
) -> dict[str, Any]:
    """Return what is counted of a feature; `names` are those of its raw input, or its own."""
    match feature:
        case Categorical():
            ids = encoded[feature.name]
            vocabulary = space.vocabularies.get(feature.table)
            first_known = vocabulary.first_known if vocabulary else MISSING + 1
            unknown = (ids > MISSING) & (ids < first_known)
            return {"missing": (ids == MISSING).sum(), "unknown": unknown.sum()}
        case Numeric():
            return {}
    length = encoded[length_key(feature.name)]
    return {
        "length": length.mean(),
        "empty": (length == 0).sum(),
        "cut": encoded[cut_column(names[feature.name])].sum(),
    }


def _column(feature: Feature, parts: dict[str, Facts], space: FeatureSpace) -> Facts:
    def share(part: str, key: str) -> float:
        return parts[part][f"{feature.name} {key}"] / parts[part]["rows"]

    train = parts[TRAIN]
    column: Facts = {"feature": feature.name, "kind": feature.kind, "rows": train["rows"]}
    shown: tuple[str, ...] = ("missing",)
    match feature:
        case Categorical():
            column |= _categorical_facts(feature, space)
            column |= {key: train[f"{feature.name} {key}"] for key in ("missing", "unknown")}
            column["coverage"] = 1 - share(TRAIN, "missing") - share(TRAIN, "unknown")
            shown = ("missing", "unknown")
        case Numeric():
            column |= space.numbers[feature.name].model_dump(
                include={"mean", "std", "min", "max", "missing"}
            )
            column["coverage"] = 1 - share(TRAIN, "missing")
        case _:
            column["mean_length"] = train[f"{feature.name} length"]
            column["max_items"] = feature.max_items
            column["empty"] = share(TRAIN, "empty")
            column["truncated"] = share(TRAIN, "cut")
            shown = ("empty",)
    return column | {part: {key: share(part, key) for key in shown} for part in SPLITS}


def _categorical_facts(feature: Categorical, space: FeatureSpace) -> Facts:
    facts: Facts = {"table": feature.table, "table_rows": space.table_rows(feature.table)}
    vocabulary = space.vocabularies.get(feature.table)
    if vocabulary:
        facts |= {
            "known_values": len(vocabulary.values),
            "distinct": len(vocabulary.values) + vocabulary.rare_values,
            "rare_values": vocabulary.rare_values,
            "rare_rows": vocabulary.rare_rows,
        }
    return facts
