# SPDX-License-Identifier: Apache-2.0
"""`clickloom explain`: the terms of one score of a trained run, so that anyone can recompute it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from features.schema import (
    LABEL,
    Categorical,
    CategoricalList,
    FeatureSchema,
    History,
    length_key,
    weight_key,
)
from features.space import FeatureSpace
from models.ctr_model import CTRModel
from pipeline.batches import Batch, batch_keys
from pipeline.config_file import load_config
from pipeline.errors import ConfigError, PipelineError
from pipeline.history_weights import history_facts, weights_facts
from pipeline.progress import Progress
from pipeline.row_lookup import SPLITS, find_row, split_of, stored_score
from pipeline.runs import Run, read_stage
from pipeline.trained_model import load_best, load_schema, split_kind
from pipeline.values import Names, Values, find_names

_MOST_NUMBERS = 5_000
"""Weights of a layer that has more are not written out."""


@dataclass(frozen=True)
class Explained:
    """A row, its model, and what the model makes of it.

    Attributes:
        model: In its best state.
        values: Says what ids stand for.
        batch: The row alone, arrays by batch key.
        stored: The score in `evaluate/predictions`; None if there is none.
    """

    model: CTRModel
    values: Values
    batch: Batch
    stored: float | None

    @property
    def schema(self) -> FeatureSchema:
        """The model's features."""
        return self.model.schema

    @property
    def tensors(self) -> dict[str, tf.Tensor]:
        """The row as the model takes it."""
        return {key: tf.convert_to_tensor(self.batch[key]) for key in batch_keys(self.schema)}


def explain(
    run_dir: Path,
    row: int,
    split: str | None = None,
    weights: bool = False,
    *,
    progress: Progress,
) -> dict[str, Any]:
    """Return everything that one score is made of.

    Args:
        run_dir: Folder of a run that was trained.
        row: Its `row_id`, as `evaluate/predictions/<split>.parquet` has it.
        split: test, valid or train; the one that has the row when not given.
        weights: Whether to add the looked-up rows and the weights outside the tables.
        progress: Where the run reports to.

    Raises:
        ConfigError: There is no such run or row.
    """
    run = open_run(run_dir, progress)
    if split not in (None, *SPLITS):
        raise ConfigError(f"--split {split}: expected one of {', '.join(SPLITS)}")
    schema = load_schema(run)
    try:
        split = split or split_of(run, row)
        batch = find_row(run, schema, split, row, "give --split {split}, or none")
    except ConfigError as error:
        raise ConfigError(f"--row {row}: {error}") from error
    space = FeatureSpace.load(run.dataset / "features")
    values = Values(space, _names(run, space, schema, batch))
    found = Explained(load_best(run, schema), values, batch, stored_score(run, split, row))
    logit = float(found.model(found.tensors, training=False)[0])
    terms = _terms(found)
    document = {
        "run": run.title,
        "split": split,
        "row_id": row,
        "label": int(batch[LABEL][0]),
        "model": run.config.model["kind"],
        "options": split_kind(run.config.model)[1].model_dump(mode="json"),
        "inputs": list(_inputs(found)),
        "histories": history_facts(found.model, values, batch)[0],
        "history_weights": weights_facts(found.model),
        "terms": terms,
        "sum": _total(terms),
        "logit": logit,
        "probability": float(tf.sigmoid(tf.constant(logit))),
        "stored_score": found.stored,
    }
    return document | ({"weights": _weights(found)} if weights else {})


def open_run(run_dir: Path, progress: Progress) -> Run:
    """Return a run whose model is trained.

    Raises:
        ConfigError: The folder holds no such run.
    """
    config = run_dir / "config.yaml"
    if not config.exists():
        raise ConfigError(
            f"{run_dir}: holds no run: there is no config.yaml; give the folder of a run, such as "
            "runs/NAME/main, the run_dir that clickloom run prints"
        )
    run = Run(load_config(config), run_dir, progress)
    if read_stage(run.dataset) is None or read_stage(run.train) is None:
        raise ConfigError(
            f"{run_dir}: has no trained model, or a damaged one; clickloom run finishes or mends it"
        )
    return run


def _names(run: Run, space: FeatureSpace, schema: FeatureSchema, batch: Batch) -> Names:
    """Return names of values; none, with a warning, where their files are gone since."""
    try:
        return find_names(run, space, schema, batch)
    except PipelineError as error:
        run.progress.event("warning", message=f"no names: {error}")
        return {}


def _inputs(found: Explained) -> Iterator[dict[str, Any]]:
    """Yield what the row has of each feature but histories: ids with their values, or a number."""
    batch = found.batch
    for feature in found.schema.features:
        match feature:
            case Categorical():
                item = found.values.item(feature.table, batch[feature.name][0])
                yield {"feature": feature.name, "kind": feature.kind, "items": [item]}
            case CategoricalList():
                length = batch[length_key(feature.name)][0]
                ids = batch[feature.name][0, :length]
                own = batch[weight_key(feature.name)][0] if feature.weighted else np.ones(length)
                items = [
                    found.values.item(feature.table, number) | {"weight": float(weight)}
                    for number, weight in zip(ids, own[:length], strict=True)
                ]
                yield {"feature": feature.name, "kind": feature.kind, "items": items}
            case History():
                continue
            case _:
                value = float(batch[feature.name][0])
                yield {"feature": feature.name, "kind": feature.kind, "x": value}


def _terms(found: Explained) -> dict[str, Any]:
    """Return the terms by name; those of fields as lists, pairs by size."""
    model, tensors = found.model, found.tensors
    shares = model.pair_weights(tensors)
    document: dict[str, Any] = {}
    for name, part in model.terms(tensors).items():
        values = part.numpy()[0]
        match name:
            case "linear":
                named = zip(model.linear_names, values, strict=True)
                document[name] = [{"field": f, "value": float(value)} for f, value in named]
            case "pairs":
                share = None if shares is None else shares.numpy()[0]
                document[name] = _pairs(model, values, share)
            case _:
                document[name] = float(values)
    return document


def _pairs(model: CTRModel, values: np.ndarray, weights: np.ndarray | None) -> list[dict[str, Any]]:
    names = model.field_names
    pairs = []
    for i, j in zip(*np.triu_indices(len(names), 1), strict=True):
        pair: dict[str, Any] = {"fields": [names[i], names[j]], "value": float(values[i, j])}
        if weights is not None and model.pair_weight_name is not None:
            weight = float(weights[i, j])
            pair[model.pair_weight_name] = weight
            pair["product"] = pair["value"] / weight if weight else None
        pairs.append(pair)
    return sorted(pairs, key=lambda pair: -abs(pair["value"]))


def _total(terms: Mapping[str, Any]) -> float:
    parts = (part if isinstance(part, list) else [{"value": part}] for part in terms.values())
    return float(sum(term["value"] for part in parts for term in part))


def _weights(found: Explained) -> dict[str, Any]:
    """Return the looked-up rows by table and id, and the weights outside the tables."""
    model = found.model
    tables: dict[str, dict[int, list[float]]] = {}
    for key, table in found.schema.id_columns():
        for number in np.unique(found.batch[key]):
            if number:  # padding is all zeros
                row = model.embeddings.gather(int(number) + model.embeddings.offsets[table])
                values = np.asarray(row)[: model.embeddings.width]
                tables.setdefault(table, {})[int(number)] = values.tolist()
    layers = {}
    for variable in model.trainable_variables:
        values = np.asarray(variable)
        written = values.tolist() if values.size <= _MOST_NUMBERS else None
        path = variable.path.split("/", maxsplit=1)[-1]
        layers[path] = {"shape": list(values.shape), "values": written}
    return {
        "tables": tables,
        "linear_columns": model.linear_columns,
        "vectors": list(model.vector_names),
        "layers": layers,
    }
