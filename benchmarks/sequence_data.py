# SPDX-License-Identifier: Apache-2.0
"""Write event files of leave-last-out tasks: which of two items did the user take next?

    CLICKLOOM_DATA=… python benchmarks/sequence_data.py musical_instruments beauty

The protocol is that of the DIN paper (Zhou et al. 2018, §6.1) on Amazon reviews. A user's reviews
stand in order of time; each is a positive, whatever its stars. The last one tests, the one before
validates, and those before train if something comes before them: all of Musical Instruments, of
Beauty the newest 3 of each user. The others, part `past`, are only seen in histories. Every
impression has a negative: the same user, time and part, so the same history, with an item drawn
evenly from those that the user never reviewed. `time` is the place in the user's sequence, from 0.
Reviews of one day (that is all that Musical Instruments tells of time) stand in a drawn order,
because that of the file follows the items' names.
"""

import argparse
import csv
import gzip
import json
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

COLUMNS = ("part", "user", "item", "time", "click")
SEED = 20180819  # of negatives and of the order within a day


class Purchases(NamedTuple):
    """What users took, oldest first, and what is known of items: text by column."""

    taken: dict[str, list[str]]
    about: dict[str, dict[str, str]]
    columns: tuple[str, ...] = ()


def musical_instruments(data: Path, rng: np.random.Generator) -> Purchases:
    """Read the reviews of Amazon Musical Instruments (McAuley et al. 2015, 5-core)."""
    path = data / "amazon-musical-instruments" / "Musical_Instruments_5core.jsonl.gz"
    dated = defaultdict(list)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for review in map(json.loads, file):
            drawn = float(rng.random())
            dated[review["reviewerID"]].append((review["unixReviewTime"], drawn, review["asin"]))
    taken = {user: [item for *_, item in sorted(dated[user])] for user in sorted(dated)}
    return Purchases(taken, {})


def beauty(data: Path, _: np.random.Generator) -> Purchases:
    """Read Amazon Beauty as Zhou et al. (S3-Rec, CIKM 2020) prepared it.

    An item's attributes are its brand and categories; `category` is the last of them.
    """
    folder = data / "amazon-beauty-sequences"
    with gzip.open(folder / "Beauty.txt.gz", "rt", encoding="utf-8") as file:
        taken = {user: items for user, *items in map(str.split, file)}
    with gzip.open(folder / "Beauty_item2attributes.json.gz", "rt", encoding="utf-8") as file:
        attributes = json.load(file)
    about = {
        item: {"category": str(held[-1]), "attributes": "|".join(map(str, held))}
        for item, held in attributes.items()
    }
    return Purchases(taken, about, ("category", "attributes"))


DATA_SETS = {"musical_instruments": (musical_instruments, 50), "beauty": (beauty, 3)}
"""What reads each data set, and the most positives of a user that train: 50 is all."""


def events(
    purchases: Purchases, train_events: int, rng: np.random.Generator
) -> Iterator[tuple[str, ...]]:
    """Yield rows of `COLUMNS` and the columns of items, by user and time.

    Args:
        purchases: Of three items or more each.
        train_events: Most positives of a user that train.
        rng: Draws the negatives.
    """
    items = sorted({item for taken in purchases.taken.values() for item in taken})

    def row(part: str, user: str, item: str, time: int, click: int) -> tuple[str, ...]:
        about = [purchases.about[item][column] for column in purchases.columns]
        return (part, user, item, str(time), str(click), *about)

    for user, taken in purchases.taken.items():
        own, last = set(taken), len(taken) - 1
        for time, item in enumerate(taken):
            part = {last: "test", last - 1: "valid"}.get(time)
            if part is None:
                part = "train" if time > 0 and time >= last - 1 - train_events else "past"
            yield row(part, user, item, time, 1)
            if part != "past":
                while (negative := items[rng.integers(len(items))]) in own:
                    pass
                yield row(part, user, negative, time, 0)


def write(name: str, data: Path, out: Path) -> Path:
    """Write the events of one data set and return their file.

    Args:
        name: One of `DATA_SETS`.
        data: Folder of the raw data.
        out: Folder to write to; made if absent.
    """
    rng = np.random.default_rng(SEED)
    read, train_events = DATA_SETS[name]
    purchases = read(data, rng)
    path = out / f"{name}.csv"
    out.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow((*COLUMNS, *purchases.columns))
        writer.writerows(events(purchases, train_events, rng))
    return path


def main() -> None:
    """Write the data sets that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", choices=list(DATA_SETS))
    parser.add_argument("--data", type=Path, default=os.environ.get("CLICKLOOM_DATA"))
    parser.add_argument("--out", type=Path, default=Path("build/sequences"))
    arguments = parser.parse_args()
    if arguments.data is None:
        parser.error("say where the raw data is: --data or CLICKLOOM_DATA")
    for name in arguments.names:
        print(write(name, arguments.data, arguments.out))


if __name__ == "__main__":
    main()
