# SPDX-License-Identifier: Apache-2.0
"""Past events of single rows with what a model makes them weigh, for report and explanation."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import tensorflow as tf

from features.schema import LABEL, FeatureSchema, History, length_key
from features.space import FeatureSpace
from models.ctr_model import CTRModel
from models.history_weights import NO_EXPLANATION
from pipeline.batches import Batch, batch_keys, parquet_files
from pipeline.errors import ConfigError
from pipeline.row_lookup import ROW, find_row, stored_score
from pipeline.runs import Run, Stage, build_stage, code_fingerprint, fingerprint_of, write_json
from pipeline.trained_model import load_best, load_schema
from pipeline.values import Names, Values, find_names

_SPLIT = "test"
_ADVICE = "clickloom explain shows rows of {split}"


@dataclass(frozen=True)
class Chosen:
    """The rows that a report shows with their histories.

    Attributes:
        row_ids: Of the test rows.
        batch: The rows with their labels, arrays by batch key.
        names: Of their values.
        drawn_from: How many rows with a past event they were drawn from; None if the config
            names them.
    """

    row_ids: tuple[int, ...]
    batch: Batch
    names: Names
    drawn_from: int | None


def weights_facts(model: CTRModel) -> dict[str, str] | None:
    """Return in words what the weights of a model's histories are; None if it has no history."""
    meaning = model.weights_meaning
    if meaning is None:
        return None
    return {"line": meaning.line, "caption": meaning.caption, "note": NO_EXPLANATION}


def history_facts(model: CTRModel, values: Values, batch: Batch) -> list[dict[str, Any]]:
    """Return for each row its events by history, oldest first, with their weights.

    Args:
        model: The model.
        values: Says what ids stand for.
        batch: The rows.

    Returns:
        By history: `lines`, the names of the weights of an event; `events` with `items` by channel
        and `weights` by line; `sums` of each line over all events.
    """
    tensors = {key: tf.convert_to_tensor(batch[key]) for key in batch_keys(model.schema)}
    found = {name: w.numpy() for name, w in model.history_weights(tensors).items()}
    meaning = model.weights_meaning
    rows: list[dict[str, Any]] = [{} for _ in range(len(next(iter(tensors.values()))))]
    if meaning is None:
        return rows
    for history in model.schema.histories:
        weights = found[history.name]
        lines = meaning.lines(weights.shape[1])
        for row, facts in enumerate(rows):
            events = list(_events(history, values, batch, row))
            own = [[_digits(w) for w in weights[row, :, place]] for place in range(len(events))]
            facts[history.name] = {
                "lines": lines,
                "events": [e | {"weights": w} for e, w in zip(events, own, strict=True)],
                "sums": [_digits(sum(w[line] for w in own)) for line in range(len(lines))],
            }
    return rows


def _events(history: History, values: Values, batch: Batch, row: int) -> Any:
    for place in range(int(batch[length_key(history.name)][row])):
        yield {
            "items": {
                channel.name: values.item(channel.table, batch[channel.name][row, place])
                for channel in history.channels
            }
        }


def _digits(value: float) -> float:
    """Return a number with the 9 digits that are all of a float32; no -0."""
    return float(f"{value:.9g}") + 0.0


def choose_rows(run: Run) -> Chosen | None:
    """Return the rows that the report of a run will show; None if the model has no history.

    It is called before training, so that what cannot be shown is refused before it.

    Raises:
        ConfigError: The config names a row that is not there.
        PipelineError: The files with the names of values cannot be read.
    """
    schema, wanted = load_schema(run), run.config.report.histories
    if not schema.histories or not wanted:
        return None
    drawn_from = None
    if isinstance(wanted, int):
        row_ids, drawn_from = draw_rows(run.dataset / _SPLIT, schema, wanted, run.config.seed)
    else:
        row_ids = tuple(dict.fromkeys(wanted))
    try:
        found = [find_row(run, schema, _SPLIT, row, _ADVICE) for row in row_ids]
    except ConfigError as error:
        raise ConfigError(f"report.histories: {error}") from error
    batch = {key: np.concatenate([row[key] for row in found]) for key in found[0]} if found else {}
    space = FeatureSpace.load(run.dataset / "features")
    names = find_names(run, space, schema, batch) if found else {}
    return Chosen(row_ids, batch, names, drawn_from)


def draw_rows(
    folder: Path, schema: FeatureSchema, count: int, seed: int
) -> tuple[tuple[int, ...], int]:
    """Draw rows that have a past event, each as likely as any other, in bounded memory.

    Args:
        folder: Encoded rows.
        schema: Features with at least one history.
        count: How many to draw, or all if there are fewer.
        seed: Of the draw.

    Returns:
        Their row_ids, sorted, and how many rows they were drawn from.
    """
    random, of = np.random.default_rng(seed), 0
    kept, drawn = np.zeros(0, np.int64), np.zeros(0)
    lengths = [length_key(history.name) for history in schema.histories]
    for path in parquet_files(folder):
        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=[ROW, *lengths])
            filled = np.any([table[key].to_numpy() > 0 for key in lengths], axis=0)
            ids = table[ROW].to_numpy()[filled]
            of += len(ids)
            kept, drawn = np.append(kept, ids), np.append(drawn, random.random(len(ids)))
            first = np.argsort(drawn)[:count]
            kept, drawn = kept[first], drawn[first]
    return tuple(sorted(int(row) for row in kept)), of


def show_histories(run: Run, chosen: Chosen, evaluated: Stage) -> Stage:
    """Build `history_weights/` for a run, which the report draws, or find it up to date."""
    parts = (chosen.row_ids, chosen.names, chosen.drawn_from)
    fingerprint = fingerprint_of(*parts, evaluated.fingerprint, code_fingerprint())
    return build_stage(
        run, run.folder / "history_weights", fingerprint, lambda to: _show(run, chosen, to)
    )


def _show(run: Run, chosen: Chosen, folder: Path) -> dict[str, Any]:
    schema = load_schema(run)
    model = load_best(run, schema)
    values = Values(FeatureSpace.load(run.dataset / "features"), chosen.names)
    histories = history_facts(model, values, chosen.batch) if chosen.row_ids else []
    facts: dict[str, Any] = {
        **(weights_facts(model) or {}),
        "seed": run.config.seed,
        "drawn_from": chosen.drawn_from,
        "rows": [
            {
                "row_id": row_id,
                "label": int(chosen.batch[LABEL][row]),
                "score": stored_score(run, _SPLIT, row_id),
                "target": _target(schema, values, chosen.batch, row),
                "histories": histories[row],
            }
            for row, row_id in enumerate(chosen.row_ids)
        ],
    }
    write_json(folder / "history_weights.json", facts)
    return facts


def _target(
    schema: FeatureSchema, values: Values, batch: Mapping[str, np.ndarray], row: int
) -> dict[str, Any]:
    """Return what histories repeat of the candidate: its items by feature."""
    channels = [channel for history in schema.histories for channel in history.channels]
    return {
        channel.target: values.item(channel.table, batch[channel.target][row])
        for channel in channels
        if channel.target and channel.target in batch
    }
