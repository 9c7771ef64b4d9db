# SPDX-License-Identifier: Apache-2.0
"""The data profile: what each feature looks like in each part of the data."""

from typing import Any

from features.schema import MISSING, Categorical, CategoricalList, History, Numeric, length_key
from features.space import FeatureSpace
from features.specs import HistorySpec
from features.splits import SPLITS


def profile_dataset(encoded: Any, space: FeatureSpace) -> dict[str, Any]:
    """Count missing, unknown and known values of every feature in every part.

    Args:
        encoded: Encoded rows with `_split`.
        space: The fitted feature space.

    Returns:
        JSON-like `{"columns": [{"feature", "kind", "rows", …}]}`; shares are of rows (lists:
        of items), `rows` and counts are of the training part.
    """
    aggregates = {}
    for feature in space.schema.features:
        for key, expression in _aggregates(encoded, feature, space).items():
            aggregates[f"{feature.name} {key}"] = expression
    grouped = encoded.group_by("_split").agg(rows=encoded.count(), **aggregates)
    parts = {row["_split"]: row for row in grouped.to_pyarrow().to_pylist()}
    columns = [_column(feature, parts, space) for feature in space.schema.features]
    return {"columns": columns}


def _aggregates(encoded: Any, feature: Any, space: FeatureSpace) -> dict[str, Any]:
    match feature:
        case Categorical():
            ids = encoded[feature.name]
            return {
                "missing": (ids == MISSING).sum(),
                "unknown": _unknown(ids, feature, space).sum(),
            }
        case CategoricalList() | History():
            length = encoded[length_key(feature.name)]
            return {
                "length": length.mean(),
                "empty": (length == 0).sum(),
                "full": (length == feature.max_items).sum(),
            }
        case Numeric():
            number = encoded[feature.name]
            return {"mean": number.mean(), "min": number.min(), "max": number.max()}
    return {}


def _unknown(ids: Any, feature: Categorical, space: FeatureSpace) -> Any:
    vocabulary = space.vocabularies.get(feature.table)
    first_known = vocabulary.first_known if vocabulary else MISSING + 1
    return (ids > MISSING) & (ids < first_known)


def _column(feature: Any, parts: dict[str, Any], space: FeatureSpace) -> dict[str, Any]:
    def value(part: str, key: str) -> Any:
        return parts[part][f"{feature.name} {key}"] if part in parts else None

    train_rows = parts["train"]["rows"]
    column: dict[str, Any] = {"feature": feature.name, "kind": feature.kind, "rows": train_rows}
    match feature:
        case Categorical():
            column |= _categorical_facts(feature, space)
            column["missing"] = value("train", "missing")
            column["unknown"] = value("train", "unknown")
            column["coverage"] = 1 - (column["missing"] + column["unknown"]) / train_rows
            for part in SPLITS:
                rows = parts[part]["rows"]
                shares = {key: value(part, key) / rows for key in ("missing", "unknown")}
                column[part] = shares
        case CategoricalList() | History():
            column["mean_length"] = value("train", "length")
            column["empty"] = value("train", "empty") / train_rows
            column["max_items"] = feature.max_items
            # a history of exactly max_items may have lost older events
            column["truncated"] = value("train", "full") / train_rows
            for part in SPLITS:
                column[part] = {"empty": value(part, "empty") / parts[part]["rows"]}
        case Numeric():
            column |= _numeric_facts(feature.name, space)
    return column


def _categorical_facts(feature: Categorical, space: FeatureSpace) -> dict[str, Any]:
    facts: dict[str, Any] = {"table": feature.table, "table_rows": space.table_rows(feature.table)}
    vocabulary = space.vocabularies.get(feature.table)
    if vocabulary:
        facts |= {
            "known_values": len(vocabulary.values),
            "distinct": len(vocabulary.values) + vocabulary.rare_values,
            "rare_values": vocabulary.rare_values,
            "rare_rows": vocabulary.rare_rows,
        }
    return facts


def _numeric_facts(name: str, space: FeatureSpace) -> dict[str, Any]:
    fit = space.numbers.get(name)
    if fit is None:  # the missing flag of another feature
        return {}
    facts = fit.model_dump(include={"mean", "std", "min", "max", "missing"})
    return facts | {"coverage": 1 - fit.missing / fit.rows if fit.rows else None}


def truncated_note(name: str, spec: HistorySpec) -> str:
    """Say how a history was cut."""
    return f"{name}: the newest {spec.max_items} events are kept"
