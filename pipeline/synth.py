# SPDX-License-Identifier: Apache-2.0
"""A click log with a planted truth: what the demo runs on."""

from collections.abc import Iterator
from datetime import date
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, Field, model_validator

from pipeline.synth_files import (
    BLOCK_ROWS,
    TRUTH,
    Block,
    EventFormat,
    LogFacts,
    Starter,
    best_possible,
    write_files,
)

__all__ = [
    "EVENTS",
    "SynthConfig",
    "SynthResult",
    "World",
    "best_possible",
    "draw_world",
    "generate",
    "write",
]

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
DEVICES = pa.array(["phone", "desktop", "tablet"])
DEVICE_SHARES = (0.6, 0.3, 0.1)
DEVICE_PEAK_HOURS = np.array([21, 11, 18])  # UTC hour at which a device's users click most
CITIES = pa.array(["Aldmoor", "Brisk", "Corvale", "Dunwick", "Eastmere", "Fenholt", "Garrow"])
BUSIEST_HOUR = 20  # UTC; twelve hours away, traffic is a quarter of that
POSITIONS = 8
MEDIAN_PRICE = 20.0

STARTER = """\
label: {column: click}
time: {column: time, unit: s}
entity: user_id
keys: [impression_id, user_id]
split: {kind: time, valid: 0.1, test: 0.1}
features:
  item_id: {kind: categorical, min_count: 2}
  category: {kind: categorical}
  device: {kind: categorical}
  city: {kind: categorical}
  position: {kind: categorical, type: int}
  price: {kind: numeric, log: true, missing_flag: true}
  hour: {kind: datetime, column: time, unit: s, part: hour}
  clicks: {kind: history, of: [item_id, category], max_items: 50}
model: {kind: din, attention_activation: prelu}
train: {batch_size: 1024, learning_rate: 0.003, epochs: 4}
"""


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


class SynthResult(LogFacts, frozen=True, extra="forbid"):
    """What `write` wrote; `truth.json` is this as JSON."""

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


def generate(config: SynthConfig) -> Iterator[Block]:
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
) -> Block:
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
    """Writes the log, its truth and a config to start from; see `write_files`.

    Args:
        config: What to generate.
        directory: Made if absent; files of these names in it are replaced.
        event_format: `csv`, `csv.gz`, `jsonl` or `parquet`.

    Returns:
        The content of `truth.json`.

    Raises:
        ValueError: If `event_format` is none of these.
    """
    starter = Starter(
        "clicks", "Users click within a few categories each; din finds them.", STARTER
    )
    return write_files(
        EVENTS,
        generate(config),
        directory,
        event_format,
        partial(SynthResult, seed=config.seed, config=config),
        starter,
    )
