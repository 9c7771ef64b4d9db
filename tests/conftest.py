import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import shutil
from pathlib import Path

import pytest
from ruamel.yaml import YAML

SMALL_CONFIG = {
    "name": "small",
    "label": {"column": "click"},
    "time": {"column": "time", "unit": "s"},
    "entity": "user_id",
    "keys": ["impression_id"],
    "features": {
        "item_id": {"kind": "categorical", "min_count": 2},
        "category": {"kind": "categorical"},
        "city": {"kind": "categorical", "required": False},
        "position": {"kind": "categorical", "type": "int"},
        "price": {"kind": "numeric", "log": True, "missing_flag": True},
        "hour": {"kind": "datetime", "column": "time", "unit": "s", "part": "hour"},
        "clicks": {"kind": "history", "of": ["item_id", "category"], "max_items": 5},
    },
    "model": {
        "kind": "din",
        "embedding_dim": 4,
        "attention_units": [8],
        "hidden_units": [16],
    },
    "train": {
        "epochs": 2,
        "batch_size": 256,
        "learning_rate": 0.01,
        "evaluations_per_epoch": 2,
        "checkpoint_steps": 3,
        "xla": False,
    },
    "export": {"parity_rows": 60},
}


def write_config(path: Path, changes: dict | None = None) -> Path:
    """Write the small config with `key.path` → value changes."""
    import copy

    document = copy.deepcopy(SMALL_CONFIG)
    for key_path, value in (changes or {}).items():
        node = document
        *parents, last = key_path.split(".")
        for key in parents:
            node = node.setdefault(key, {})
        node[last] = value
    YAML(typ="safe", pure=True).dump(document, path)
    return path


class Silent:
    """Progress that says nothing but remembers events."""

    def __init__(self):
        self.events = []

    def event(self, name, **fields):
        self.events.append((name, fields))

    def bar(self, name, total):
        import contextlib

        @contextlib.contextmanager
        def bar():
            yield self

        return bar()

    def update(self, done, **numbers):
        pass


def copy_stages(run_dir: str | Path, runs: Path, name: str, *stages: str) -> Path:
    """Copy stages of a finished run into the folder of a run to come, which then reuses them."""
    folder = runs / name / "main"
    for stage in stages:
        shutil.copytree(Path(run_dir) / stage, folder / stage)
    return folder


@pytest.fixture(scope="session")
def small_log(tmp_path_factory) -> Path:
    """A generated log of 3,000 impressions by 75 users."""
    from pipeline.synth import SynthConfig, write

    folder = tmp_path_factory.mktemp("log")
    write(SynthConfig(impressions=3000, users=75, items=60, categories=6, seed=3), folder)
    return folder / "events.csv"


@pytest.fixture(scope="session")
def small_run(small_log, tmp_path_factory):
    """A finished run of the small config: (config path, result, runs folder)."""
    from pipeline.workflow import run

    folder = tmp_path_factory.mktemp("small")
    config = write_config(folder / "config.yaml", {"data.files": str(small_log)})
    result = run(config, folder / "runs", progress=Silent())
    return config, result, folder / "runs"
