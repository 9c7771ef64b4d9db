# SPDX-License-Identifier: Apache-2.0
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Literal, NamedTuple, Self, get_args

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import ArrayLike
from pydantic import BaseModel, Field, model_validator
from sklearn.metrics import log_loss, roc_auc_score

EventFormat = Literal["csv", "csv.gz", "jsonl", "parquet"]
EVENTS = pa.schema(
    {
        "impression_id": pa.int64(),
        "time": pa.int64(),
        "user_id": pa.string(),
        "item_id": pa.string(),
        "category": pa.string(),
        "price": pa.float64(),
        "device": pa.string(),
        "city": pa.string(),
        "position": pa.int64(),
        "click": pa.int64(),
    }
)
TRUTH = pa.schema({"impression_id": pa.int64(), "probability": pa.float64()})

BLOCK_ROWS = 250_000  # bounds memory; another value gives other draws for the same seed
DEVICES = pa.array(["phone", "desktop", "tablet"])
DEVICE_SHARES = (0.6, 0.3, 0.1)
DEVICE_PEAK_HOURS = np.array([21, 11, 18])  # UTC hour at which a device's users click most
CITIES = pa.array(["Aldmoor", "Brisk", "Corvale", "Dunwick", "Eastmere", "Fenholt", "Garrow"])
BUSIEST_HOUR = 20  # UTC; twelve hours away, traffic is a quarter of that
POSITIONS = 8
MEDIAN_PRICE = 20.0


class SynthConfig(BaseModel, frozen=True, extra="forbid"):
    """A click log to generate: its size, its gaps and the strength of each planted effect.

    User u is shown item v at position k and hour h on device d. The planted truth is

        logit = base + quality_v + bonus · [category_v ∈ interests_u]
                + context · cos(2π (h − peak_d) / 24) − position · (k − 1)
                − price · ln(price_v / median price)

    without the last term where the price is missing. `city` has no effect, on purpose.
    """

    impressions: int = Field(200_000, ge=1, description="Rows of the log.")
    users: int = Field(2_500, ge=1, description="Users; some are more active than others.")
    items: int = Field(1_000, ge=1, description="Items, spread evenly over the categories.")
    categories: int = Field(20, ge=1, description="Categories of items.")
    days: int = Field(10, ge=1, description="Length of the log in days.")
    start: date = Field(date(2026, 1, 5), description="First day; it begins at 00:00 UTC.")
    seed: int = Field(7, ge=0, description="Same config and seed, same bytes.")
    min_interests: int = Field(2, ge=1, description="Fewest categories that a user likes.")
    max_interests: int = Field(4, ge=1, description="Most categories that a user likes.")
    interest_share: float = Field(0.5, ge=0, le=1, description="Impressions aimed at an interest.")
    missing_price: float = Field(0.05, ge=0, le=1, description="Share of rows without a price.")
    missing_city: float = Field(0.1, ge=0, le=1, description="Share of rows without a city.")
    popularity_exponent: float = Field(0.8, ge=0, description="Zipf exponent within a category.")
    base_logit: float = Field(-3.0, description="Logit of a click before any effect.")
    interest_bonus: float = Field(2.6, description="Logit added inside the user's interests.")
    quality_scale: float = Field(0.6, ge=0, description="Standard deviation of quality, in logits.")
    context_effect: float = Field(0.4, description="Amplitude of device × hour, in logits.")
    position_effect: float = Field(0.08, description="Logit lost with each position further down.")
    price_effect: float = Field(0.3, description="Logit lost when the price is e times higher.")

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if not self.min_interests <= self.max_interests <= self.categories <= self.items:
            raise ValueError(
                "expected min_interests <= max_interests <= categories <= items, received "
                f"{self.min_interests}, {self.max_interests}, {self.categories}, {self.items}"
            )
        return self


class World(NamedTuple):
    """The users (U) and items (V) behind a log; item v is of category v mod categories."""

    interests: np.ndarray  # categories that a user likes, (U, max_interests); -1 fills up
    activity: np.ndarray  # probability that an impression is the user's, (U,)
    quality: np.ndarray  # logit of an item, (V,)
    price: np.ndarray  # price of an item, (V,)


class BestScores(NamedTuple):
    """What the true probabilities score; `auc` is None if the labels hold one class only."""

    auc: float | None
    log_loss: float


class SynthResult(BaseModel, frozen=True, extra="forbid"):
    """What `write` wrote; `truth.json` is this as JSON."""

    events: str = Field(description="Name of the event file.")
    impressions: int = Field(description="Rows of the log.")
    click_rate: float = Field(description="Clicks per impression.")
    best_auc: float | None = Field(description="AUC of the true probabilities, all rows.")
    best_log_loss: float = Field(description="Log loss of the true probabilities, all rows, nats.")
    seed: int = Field(description="The config's seed.")
    config: SynthConfig = Field(description="What was asked for.")


def draw_world(config: SynthConfig) -> World:
    """Draws users and items; they stay the same when only the length of the log changes."""
    rng = np.random.default_rng([config.seed, 0])
    interests = rng.random((config.users, config.categories)).argsort(axis=1)
    liked = rng.integers(config.min_interests, config.max_interests, config.users, endpoint=True)
    interests = np.where(np.arange(config.categories) < liked[:, None], interests, -1)
    return World(
        interests=interests[:, : config.max_interests],
        activity=rng.dirichlet(np.full(config.users, 2.0)),
        quality=config.quality_scale * rng.standard_normal(config.items),
        price=(MEDIAN_PRICE * rng.lognormal(sigma=0.7, size=config.items)).round(2),
    )


def generate(config: SynthConfig) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yields events (`EVENTS`) and their truth (`TRUTH`) by time, `BLOCK_ROWS` rows at a time."""
    world = draw_world(config)
    rng = np.random.default_rng([config.seed, 1])
    times = _draw_times(config, rng)
    for first in range(0, config.impressions, BLOCK_ROWS):
        yield _draw_block(config, world, first, times[first : first + BLOCK_ROWS], rng)


def _draw_times(config: SynthConfig, rng: np.random.Generator) -> np.ndarray:
    """Ascending epoch seconds, (impressions,), by the inverse of the daily rhythm's integral."""
    hours = np.arange(24 * config.days + 1)
    traffic = 1 + 0.6 * np.cos(2 * np.pi * (hours[1:] - 0.5 - BUSIEST_HOUR) / 24)
    passed = np.append(0.0, traffic.cumsum()) / traffic.sum()
    seconds = np.interp(np.sort(rng.random(config.impressions)), passed, 3600 * hours)
    return np.datetime64(config.start, "s").astype(np.int64) + seconds.astype(np.int64)


def _draw_items(
    config: SynthConfig, world: World, user: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Items to show to each user, (rows,): `interest_share` of them aimed at an interest."""
    interests = (world.interests >= 0).sum(axis=1)
    aimed = world.interests[user, rng.integers(interests[user])]
    anything = rng.integers(config.categories, size=len(user))
    category = np.where(rng.random(len(user)) < config.interest_share, aimed, anything)
    ranks = np.arange(-(-config.items // config.categories))
    popularity = (1.0 + ranks) ** -config.popularity_exponent
    rank = rng.choice(ranks, len(user), p=popularity / popularity.sum())
    item = category + config.categories * rank
    return item - config.categories * (item >= config.items)  # the last rank may have gaps


def _draw_block(
    config: SynthConfig, world: World, first: int, time: np.ndarray, rng: np.random.Generator
) -> tuple[pa.Table, pa.Table]:
    """Events and truth of the impressions `first`, `first + 1`, … at `time`, (rows,)."""
    rows = len(time)
    user = rng.choice(config.users, rows, p=world.activity)
    item = _draw_items(config, world, user, rng)
    category = item % config.categories
    price = np.where(rng.random(rows) < config.missing_price, np.nan, world.price[item])
    device = rng.choice(len(DEVICES), rows, p=DEVICE_SHARES)
    city = pa.array(user % len(CITIES), mask=rng.random(rows) < config.missing_city)
    position = rng.integers(1, POSITIONS, rows, endpoint=True)
    hours_off_peak = time % 86_400 / 3600 - DEVICE_PEAK_HOURS[device]
    logits = (
        config.base_logit
        + world.quality[item]
        + config.interest_bonus * (world.interests[user] == category[:, None]).any(axis=1)
        + config.context_effect * np.cos(2 * np.pi * hours_off_peak / 24)
        - config.position_effect * (position - 1)
        - config.price_effect * np.nan_to_num(np.log(price / MEDIAN_PRICE))
    )
    probability = 1 / (1 + np.exp(-logits))
    events = {
        "impression_id": np.arange(first, first + rows),
        "time": time,
        "user_id": _names("u", config.users).take(user),
        "item_id": _names("i", config.items).take(item),
        "category": _names("c", config.categories).take(category),
        "price": pa.array(price, from_pandas=True),  # NaN becomes null
        "device": DEVICES.take(device),
        "city": CITIES.take(city),
        "position": position,
        "click": (rng.random(rows) < probability).astype(np.int64),
    }
    truth = {"impression_id": events["impression_id"], "probability": probability}
    return pa.table(events, schema=EVENTS), pa.table(truth, schema=TRUTH)


def _names(prefix: str, count: int) -> pa.Array:
    return pa.array([f"{prefix}{number:05d}" for number in range(count)])


def write(config: SynthConfig, directory: Path, event_format: EventFormat = "csv") -> SynthResult:
    """Writes `events.<format>`, `truth.parquet` and, last, `truth.json`; each aside, then renamed.

    Args:
        config: What to generate.
        directory: Made if absent; files of these names in it are replaced.
        event_format: `csv` and `csv.gz` (missing is an empty field), `jsonl` (null) or `parquet`.

    Returns:
        The content of `truth.json`.

    Raises:
        ValueError: If `event_format` is none of these.
    """
    if event_format not in get_args(EventFormat):
        expected = ", ".join(get_args(EventFormat))
        raise ValueError(f"event format is {event_format!r}; expected one of {expected}")
    directory.mkdir(parents=True, exist_ok=True)
    names = (f"events.{event_format}", "truth.parquet", "truth.json")
    with tempfile.TemporaryDirectory(dir=directory, prefix=".synth-") as aside:
        events, truth, summary = (Path(aside) / name for name in names)
        labels = _write_blocks(config, events, truth)
        best = best_possible(truth, np.arange(len(labels)), labels)
        result = SynthResult(
            events=events.name,
            impressions=len(labels),
            click_rate=float(labels.mean()),
            best_auc=best.auc,
            best_log_loss=best.log_loss,
            seed=config.seed,
            config=config,
        )
        summary.write_text(result.model_dump_json(indent=2) + "\n", encoding="utf-8")
        for path in (events, truth, summary):
            os.replace(path, directory / path.name)
    return result


def _write_blocks(config: SynthConfig, events: Path, truth: Path) -> np.ndarray:
    """Writes both files and returns the labels, (impressions,)."""
    labels = []
    with _event_writer(events) as write_events, pq.ParquetWriter(truth, TRUTH) as truth_writer:
        for block, block_truth in generate(config):
            write_events(block)
            truth_writer.write_table(block_truth)
            labels.append(block["click"].to_numpy())
    return np.concatenate(labels)


@contextmanager
def _event_writer(path: Path) -> Iterator[Callable[[pa.Table], None]]:
    """Opens a writer for the format, and the compression, that the name ends in."""
    if path.suffix == ".parquet":
        with pq.ParquetWriter(path, EVENTS, compression="zstd") as writer:
            yield writer.write_table
    elif path.suffix == ".jsonl":
        with path.open("w", encoding="utf-8") as file:
            yield lambda rows: file.writelines(json.dumps(row) + "\n" for row in rows.to_pylist())
    else:
        options = pa_csv.WriteOptions(quoting_style="none", quoting_header="none")
        with (
            pa.output_stream(path) as stream,
            pa_csv.CSVWriter(stream, EVENTS, write_options=options) as writer,
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
