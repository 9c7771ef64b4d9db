# SPDX-License-Identifier: Apache-2.0
"""`clickloom explain`: the terms of one score of a trained run, so that anyone can recompute it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import tensorflow as tf

from features.gaps import GAP_BITS
from features.schema import (
    FIRST_UNKNOWN,
    LABEL,
    MISSING,
    Categorical,
    CategoricalList,
    FeatureSchema,
    History,
    length_key,
    weight_key,
)
from features.space import FeatureSpace
from features.specs import BucketedSpec, CategoricalSpec, DatetimeSpec
from models.ctr_model import CTRModel
from pipeline.batches import Batch, batch_keys, list_widths, parquet_files, to_numpy
from pipeline.config_file import load_config
from pipeline.errors import ConfigError
from pipeline.progress import Progress
from pipeline.runs import Run, read_stage
from pipeline.trained_model import load_best, load_schema, split_kind

SPLITS = ("test", "valid", "train")
_ROW = "row_id"
_MOST_NUMBERS = 5_000
"""Weights of a layer that has more are not written out."""


@dataclass(frozen=True)
class Explained:
    """A row, its model, and what the model makes of it.

    Attributes:
        model: In its best state.
        space: Says which value an id stands for.
        batch: The row alone, arrays by batch key.
        stored: The score in `evaluate/predictions`; None if there is none.
    """

    model: CTRModel
    space: FeatureSpace
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
    run_dir: Path, row: int, split: str = "test", weights: bool = False, *, progress: Progress
) -> dict[str, Any]:
    """Return everything that one score is made of.

    Args:
        run_dir: Folder of a run that was trained.
        row: Its `row_id`, as `evaluate/predictions/<split>.parquet` has it.
        split: test, valid or train.
        weights: Whether to add the looked-up rows and the weights outside the tables.
        progress: Where the run reports to.

    Raises:
        ConfigError: There is no such run or row.
    """
    run = open_run(run_dir, progress)
    if split not in SPLITS:
        raise ConfigError(f"--split {split}: expected one of {', '.join(SPLITS)}")
    schema = load_schema(run)
    batch = find_row(run, schema, split, row)
    space = FeatureSpace.load(run.dataset / "features")
    found = Explained(load_best(run, schema), space, batch, _stored_score(run, split, row))
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
        "events": _events(found),
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
        raise ConfigError(f"{run_dir}: has no trained model; finish it with clickloom run")
    return run


def find_row(run: Run, schema: FeatureSchema, split: str, row: int) -> Batch:
    """Return a row of the encoded data as a batch of one.

    Raises:
        ConfigError: The split has no row of that number.
    """
    columns, widths = [*batch_keys(schema), LABEL], list_widths(schema)
    table = _find(run.dataset / split, row, columns)
    if table is None:
        others = [s for s in SPLITS if s != split and _find(run.dataset / s, row, [_ROW])]
        low, high = _range(run.dataset / split)
        raise ConfigError(
            f"--row {row}: the {split} rows of {run.title} have no row_id {row}; "
            + (f"it is in {others[0]}: add --split {others[0]}" if others else
               f"theirs are among {low} to {high}; evaluate/predictions/{split}.parquet lists them")
        )  # fmt: skip
    return {name: to_numpy(table[name], widths.get(name)) for name in columns}


def _find(folder: Path, row: int, columns: list[str]) -> pa.Table | None:
    for path in parquet_files(folder):
        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):
            ids = file.read_row_group(group, columns=[_ROW])[_ROW]
            place = pc.index(ids, pa.scalar(row, ids.type)).as_py()
            if place >= 0:
                return file.read_row_group(group, columns=columns).slice(place, 1)
    return None


def _range(folder: Path) -> tuple[int, int]:
    ends = [pc.min_max(pq.read_table(p, columns=[_ROW])[_ROW]) for p in parquet_files(folder)]
    return min(e["min"].as_py() for e in ends), max(e["max"].as_py() for e in ends)


def _stored_score(run: Run, split: str, row: int) -> float | None:
    path = run.evaluate / "predictions" / f"{split}.parquet"
    if not path.exists():
        return None
    scores = pq.read_table(path, columns=["score"], filters=[(_ROW, "==", row)])["score"]
    return scores[0].as_py() if len(scores) else None


def value_of(space: FeatureSpace, table: str, number: int) -> str:
    """Return in words what an id of a table stands for."""
    if number < FIRST_UNKNOWN:
        return "missing" if number == MISSING else "padding"
    place = number - FIRST_UNKNOWN
    if table not in space.specs:  # of time gaps, which no feature owns
        return _gap(place)
    match space.specs[table]:
        case CategoricalSpec(hash_buckets=int()):
            return f"hash bucket {place}"
        case DatetimeSpec():
            return str(place)
        case BucketedSpec():
            return _bucket(space, table, place)
    vocabulary = space.vocabularies[table]
    known = number - vocabulary.first_known
    return "unknown" if known < 0 else repr(vocabulary.values[known].as_py())


def _gap(bits: int) -> str:
    """Return in words what a bucket of time gaps holds; see `features.gaps`."""
    if bits == 0:
        return "0 s"
    least = 2 ** (bits - 1)
    return f"{least} s or more" if bits == GAP_BITS else f"{least} to {2 * least - 1} s"


def _bucket(space: FeatureSpace, table: str, place: int) -> str:
    fit = space.buckets[table]
    if not fit.edges:
        return f"bucket {fit.lowest + place}"
    ends = ["-∞", *(f"{edge:.9g}" for edge in fit.edges), "∞"]
    return f"{ends[place]} ≤ x < {ends[place + 1]}" if place else f"x < {ends[1]}"


def _inputs(found: Explained) -> Iterator[dict[str, Any]]:
    """Yield what the row has of each feature but histories: ids with their values, or a number."""
    batch = found.batch
    for feature in found.schema.features:
        match feature:
            case Categorical():
                item = _item(found, feature.table, batch[feature.name][0])
                yield {"feature": feature.name, "kind": feature.kind, "items": [item]}
            case CategoricalList():
                length = batch[length_key(feature.name)][0]
                ids = batch[feature.name][0, :length]
                own = batch[weight_key(feature.name)][0] if feature.weighted else np.ones(length)
                items = [
                    _item(found, feature.table, number) | {"weight": float(weight)}
                    for number, weight in zip(ids, own[:length], strict=True)
                ]
                yield {"feature": feature.name, "kind": feature.kind, "items": items}
            case History():
                continue
            case _:
                value = float(batch[feature.name][0])
                yield {"feature": feature.name, "kind": feature.kind, "x": value}


def _item(found: Explained, table: str, number: int) -> dict[str, Any]:
    return {"table": table, "id": int(number), "value": value_of(found.space, table, int(number))}


def _events(found: Explained) -> dict[str, list[dict[str, Any]]]:
    """Return the events of each history, oldest first, with their weights where there are any."""
    weights = found.model.event_weights(found.tensors)
    events: dict[str, list[dict[str, Any]]] = {}
    for history in found.schema.histories:
        events[history.name] = []
        for place in range(int(found.batch[length_key(history.name)][0])):
            items = {
                channel.name: _item(found, channel.table, found.batch[channel.name][0, place])
                for channel in history.channels
            }
            event: dict[str, Any] = {"items": items}
            if history.name in weights:
                event["weight"] = float(weights[history.name][0, place])
            events[history.name].append(event)
    return events


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
    return {"tables": tables, "linear_columns": model.linear_columns, "layers": layers}
