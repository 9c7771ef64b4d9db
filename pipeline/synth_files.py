# SPDX-License-Identifier: Apache-2.0
"""The files of a generated log, and what its true probabilities score."""

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar, get_args

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import ArrayLike
from pydantic import BaseModel, Field
from sklearn.metrics import log_loss, roc_auc_score

EventFormat = Literal["csv", "csv.gz", "jsonl", "parquet"]
TRUTH = pa.schema({"impression_id": pa.int64(), "probability": pa.float64()})
BLOCK_ROWS = 250_000  # bounds memory; another value gives other draws for the same seed

Block = tuple[pa.Table, pa.Table]
"""Some rows of a log, `impression_id` and `click` among their columns, and their `TRUTH`.

Rows that are only events of the past have no probability.
"""


class BestScores(NamedTuple):
    """What the true probabilities score; `auc` is None if the labels hold one class only."""

    auc: float | None
    log_loss: float


class LogFacts(BaseModel, frozen=True, extra="forbid"):
    """What every `truth.json` says of the log beside it."""

    events: str = Field(description="Name of the event file.")
    impressions: int = Field(description="Rows of the log; past events that are none not counted.")
    click_rate: float = Field(description="Clicks per impression.")
    best_auc: float | None = Field(description="AUC of the true probabilities, all rows.")
    best_log_loss: float = Field(description="Log loss of the true probabilities, all rows, nats.")
    seed: int = Field(description="The config's seed.")


Facts = TypeVar("Facts", bound=LogFacts)


class Starter(NamedTuple):
    """A config to start from, written beside the log."""

    name: str  # of the run
    about: str  # what the log shows, one comment line per line
    body: str  # YAML of all that follows `data`

    def text(self, events: Path, best_auc: float | None) -> str:
        """Returns the YAML; it names the events by their absolute path, to run from anywhere."""
        best = "" if best_auc is None else f"Best possible AUC, all rows: {best_auc:.4f}.\n"
        about = "".join(f"# {line}\n" for line in (self.about + "\n" + best).splitlines())
        files = json.dumps(str(events), ensure_ascii=False)
        return f"{about}name: {self.name}\ndata: {{files: {files}}}\n{self.body}"


def write_files(
    schema: pa.Schema,
    blocks: Iterable[Block],
    directory: Path,
    event_format: EventFormat,
    describe: Callable[..., Facts],
    starter: Starter,
) -> Facts:
    """Writes a log's files, each aside, then renamed; `truth.json` last.

    Args:
        schema: Of the events.
        blocks: Events and their truth.
        directory: Made if absent; files of these names in it are replaced.
        event_format: `csv` and `csv.gz` (missing is an empty field), `jsonl` (null) or `parquet`.
        describe: Makes the content of `truth.json`; called with the fields of `LogFacts`, but for
            the seed, by name.
        starter: Becomes `config.yaml`.

    Returns:
        The content of `truth.json`.

    Raises:
        ValueError: If `event_format` is none of these.
    """
    if event_format not in get_args(EventFormat):
        expected = ", ".join(get_args(EventFormat))
        raise ValueError(f"event format is {event_format!r}; expected one of {expected}")
    directory.mkdir(parents=True, exist_ok=True)
    names = (f"events.{event_format}", "truth.parquet", "config.yaml", "truth.json")
    with tempfile.TemporaryDirectory(dir=directory, prefix=".synth-") as aside:
        events, truth, config, summary = (Path(aside) / name for name in names)
        ids, labels = _write_blocks(schema, blocks, events, truth)
        best = best_possible(truth, ids, labels)
        facts = describe(
            events=events.name,
            impressions=len(labels),
            click_rate=float(labels.mean()),
            best_auc=best.auc,
            best_log_loss=best.log_loss,
        )
        text = starter.text(directory.resolve() / events.name, best.auc)
        config.write_text(text, encoding="utf-8")
        summary.write_text(facts.model_dump_json(indent=2) + "\n", encoding="utf-8")
        for path in (events, truth, config, summary):
            os.replace(path, directory / path.name)
    return facts


def _write_blocks(
    schema: pa.Schema, blocks: Iterable[Block], events: Path, truth: Path
) -> tuple[np.ndarray, np.ndarray]:
    """Writes both files; returns the ids of rows with a probability and their labels."""
    ids, labels = [], []
    with (
        _event_writer(events, schema) as write_events,
        pq.ParquetWriter(truth, TRUTH) as truth_writer,
    ):
        for block, block_truth in blocks:
            write_events(block)
            truth_writer.write_table(block_truth)
            impressions = block.filter(block_truth["probability"].is_valid())
            ids.append(impressions["impression_id"].to_numpy())
            labels.append(impressions["click"].to_numpy())
    return np.concatenate(ids), np.concatenate(labels)


@contextmanager
def _event_writer(path: Path, schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
    """Opens a writer for the format, and the compression, that the name ends in."""
    if path.suffix == ".parquet":
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            yield writer.write_table
    elif path.suffix == ".jsonl":
        with path.open("w", encoding="utf-8") as file:
            yield lambda rows: file.writelines(json.dumps(row) + "\n" for row in rows.to_pylist())
    else:
        options = pa_csv.WriteOptions(quoting_style="none", quoting_header="none")
        with (
            pa.output_stream(path) as stream,
            pa_csv.CSVWriter(stream, schema, write_options=options) as writer,
        ):
            yield writer.write_table


def best_possible(truth: Path, impression_ids: ArrayLike, labels: ArrayLike) -> BestScores:
    """Scores the true probabilities on some rows of the log, such as a test split.

    Args:
        truth: `truth.parquet` as written by `write`.
        impression_ids: Rows to score, in any order, (rows,).
        labels: Their clicks, 0 or 1, (rows,).

    Returns:
        The AUC and log loss that no model beats but by luck.

    Raises:
        ValueError: If there are no rows, as many labels as ids are not given, or an id is unknown.
    """
    ids, clicks = np.asarray(impression_ids), np.asarray(labels)
    if ids.shape != clicks.shape or ids.ndim != 1 or not len(ids):
        raise ValueError(f"impression_ids are {ids.shape} and labels {clicks.shape}, not (rows,)")
    probability = pq.read_table(truth)["probability"].to_numpy()  # row number = impression_id
    unknown = ids[(ids < 0) | (ids >= len(probability))]
    if len(unknown):
        raise ValueError(f"impression_id {unknown[0]} is not in {truth}; is it of another log?")
    both = 0 < clicks.sum() < len(clicks)
    auc = float(roc_auc_score(clicks, probability[ids])) if both else None
    return BestScores(auc, float(log_loss(clicks, probability[ids], labels=[0, 1])))
