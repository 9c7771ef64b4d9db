# SPDX-License-Identifier: Apache-2.0
"""Write the encoded rows of a run's data set for the runners of other systems.

    python benchmarks/peers/export_rows.py runs/beauty_sequences/main build/sequences/beauty.npz

Ids, padded histories, lengths and labels are those that our models get, embedding length and MLP
those of the run's model.
"""

import argparse
from pathlib import Path

from ruamel.yaml import YAML
from sequence_task import Schema, write_task

from features.schema import LABEL, FeatureSchema, length_key
from pipeline.batches import count_rows, read_batches

PARTS = ("train", "valid", "test")


def named(key: str) -> str:
    """Return a column's name that is no attribute of a PyTorch module, as `children` would be."""
    return f"x_{key}"


def export(run: Path, out: Path) -> None:
    """Write the data set of a run.

    Args:
        run: Folder of the run, ingested.
        out: The .npz file.

    Raises:
        ValueError: Other systems cannot be given these features.
    """
    text = (run / "dataset" / "features" / "schema.json").read_text(encoding="utf-8")
    schema = FeatureSchema.model_validate_json(text)
    model = YAML(typ="safe").load(run / "config.yaml")["model"]
    if len(schema.histories) != 1 or schema.numeric or any(f.weighted for f in schema.lists):
        raise ValueError(
            f"{run}: runners take one history, fields with one id and lists without weights"
        )
    (history,) = schema.histories
    rows = {table.name: table.rows for table in schema.tables}
    written = Schema(
        fields={named(feature.name): rows[feature.table] for feature in schema.categorical},
        lists={
            named(feature.name): (rows[feature.table], feature.max_items)
            for feature in schema.lists
        },
        channels={named(c.name): named(c.target) for c in history.channels if c.target},
        length=named(length_key(history.name)),
        max_items=history.max_items,
        embedding_dim=model["embedding_dim"],
        hidden_units=tuple(model["hidden_units"]),
    )
    parts = {}
    for part in PARTS:
        folder = run / "dataset" / part
        columns = next(read_batches(folder, schema, count_rows(folder), carry=(LABEL,)))
        parts[part] = {key if key == LABEL else named(key): a for key, a in columns.items()}
    write_task(out, written, parts)


def main() -> None:
    """Write what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    export(arguments.run, arguments.out)


if __name__ == "__main__":
    main()
