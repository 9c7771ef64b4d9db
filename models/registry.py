# SPDX-License-Identifier: Apache-2.0
"""Every model by its kind: the one place where a new model is announced."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from features.schema import FeatureSchema
from models.afm import AFM, AFMConfig
from models.autoint import AutoInt, AutoIntConfig
from models.base import Base, BaseConfig
from models.bst import BST, BSTConfig
from models.ctr_model import CTRModel, ModelConfig
from models.dcn import DCN, DCNConfig
from models.deepfm import DeepFM, DeepFMConfig
from models.dien import DIEN, DIENConfig
from models.din import DIN, DINConfig
from models.dmn import DMN, DMNConfig
from models.ffm import FFM, FFMConfig
from models.finalmlp import FinalMLP, FinalMLPConfig
from models.fm import FM, FMConfig
from models.fmfm import FmFM, FmFMConfig
from models.fwfm import FwFM, FwFMConfig
from models.kvmemnn import KVMemNN, KVMemNNConfig
from models.lr import LR, LRConfig
from models.memn2n import MemN2N, MemN2NConfig
from models.memnn import MemNN, MemNNConfig
from models.nfm import NFM, NFMConfig
from models.sasrec import SASRec, SASRecConfig
from models.transformer import Transformer, TransformerConfig
from models.wide_deep import WideDeep, WideDeepConfig
from models.xdeepfm import XDeepFM, XDeepFMConfig


@dataclass(frozen=True)
class ModelEntry:
    """A kind of model: its Config, its class, one line about it and where it comes from."""

    config: type[ModelConfig]
    model: type[CTRModel]
    summary: str
    paper: str


MODELS = {
    "lr": ModelEntry(LRConfig, LR, "linear baseline: one weight per value", "–"),
    "fm": ModelEntry(FMConfig, FM, "all pairs of fields by products of vectors", "Rendle 2010"),
    "ffm": ModelEntry(
        FFMConfig, FFM, "all pairs; a value has one vector per partner field", "Juan et al. 2016"
    ),
    "fwfm": ModelEntry(
        FwFMConfig, FwFM, "all pairs, each pair of fields with a strength", "Pan et al. 2018"
    ),
    "fmfm": ModelEntry(
        FmFMConfig, FmFM, "all pairs, each pair of fields with a matrix", "Sun et al. 2021"
    ),
    "afm": ModelEntry(AFMConfig, AFM, "all pairs, weighted by attention", "Xiao et al. 2017"),
    "nfm": ModelEntry(NFMConfig, NFM, "the pooled pairs through an MLP", "He & Chua 2017"),
    "wide_deep": ModelEntry(
        WideDeepConfig, WideDeep, "a linear model beside an MLP", "Cheng et al. 2016"
    ),
    "deepfm": ModelEntry(DeepFMConfig, DeepFM, "FM beside an MLP", "Guo et al. 2017"),
    "dcn": ModelEntry(DCNConfig, DCN, "cross layers of full or low rank, MLP", "Wang et al. 2021"),
    "xdeepfm": ModelEntry(
        XDeepFMConfig, XDeepFM, "products of fields of growing degree, MLP", "Lian et al. 2018"
    ),
    "autoint": ModelEntry(
        AutoIntConfig, AutoInt, "fields attend to each other, MLP", "Song et al. 2019"
    ),
    "finalmlp": ModelEntry(
        FinalMLPConfig, FinalMLP, "two gated MLPs and a bilinear product", "Mao et al. 2023"
    ),
    "base": ModelEntry(
        BaseConfig, Base, "embeddings, pooled histories and an MLP", "Zhou et al. 2018, §4.2"
    ),
    "din": ModelEntry(
        DINConfig, DIN, "histories weighted by their fit to the candidate", "Zhou et al. 2018"
    ),
    "dien": ModelEntry(
        DIENConfig, DIEN, "interests that evolve along a history, GRU, AUGRU", "Zhou et al. 2019"
    ),
    "bst": ModelEntry(
        BSTConfig, BST, "events and candidate attend to each other", "Chen et al. 2019"
    ),
    "transformer": ModelEntry(
        TransformerConfig,
        Transformer,
        "an encoded history, decoded by the candidate's features",
        "Vaswani et al. 2017",
    ),
    "sasrec": ModelEntry(
        SASRecConfig,
        SASRec,
        "a causally encoded history meets the candidate",
        "Kang & McAuley 2018",
    ),
    "memn2n": ModelEntry(
        MemN2NConfig, MemN2N, "several hops over the history", "Sukhbaatar et al. 2015"
    ),
    "kvmemnn": ModelEntry(
        KVMemNNConfig,
        KVMemNN,
        "compares keys of the history and reads values",
        "Miller et al. 2016",
    ),
    "dmn": ModelEntry(DMNConfig, DMN, "goes through the history in episodes", "Kumar et al. 2016"),
    "memnn": ModelEntry(
        MemNNConfig, MemNN, "chooses single events of the history", "Weston et al. 2015"
    ),
}


def entry(kind: str) -> ModelEntry:
    """Return the entry of a kind.

    Args:
        kind: One of `MODELS`.

    Raises:
        ValueError: There is no such kind; the message names the nearest one.
    """
    if kind in MODELS:
        return MODELS[kind]
    near = get_close_matches(kind.lower(), MODELS, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(f"no model of kind {kind!r}; {hint}kinds: {', '.join(MODELS)}")


def check(kind: str, schema: FeatureSchema, config: ModelConfig) -> list[str]:
    """Return what keeps this model from these features, in plain words; empty if nothing does.

    Args:
        kind: One of `MODELS`.
        schema: Declared features.
        config: The kind's Config.

    Raises:
        ValueError: There is no such kind.
    """
    model = entry(kind).model
    if config.features is None:
        return model.problems(schema, config)
    declared = [feature.name for feature in schema.features]
    unknown = [name for name in config.features if name not in declared]
    if unknown:
        return [
            f"`features:` names `{name}`, which is not declared; declared are {', '.join(declared)}"
            for name in unknown
        ]
    return model.problems(schema.select(config.features), config)


def field_names(kind: str, schema: FeatureSchema, config: ModelConfig) -> list[str]:
    """Return the names of the features that are fields of a model, before it is built.

    Args:
        kind: One of `MODELS`.
        schema: Features of the model.
        config: The kind's Config.

    Raises:
        ValueError: There is no such kind.
    """
    entering = getattr(config, "numeric_input", entry(kind).model.numeric_input)
    kinds = ("categorical", "list", "numeric") if entering == "fields" else ("categorical", "list")
    return [feature.name for feature in schema.features if feature.kind in kinds]


def build(
    kind: str, schema: FeatureSchema, config: ModelConfig, slot_values: Sequence[float] = ()
) -> CTRModel:
    """Return a new model; its weights exist after the first call (`build_from`).

    Args:
        kind: One of `MODELS`.
        schema: Declared features; `config.features` picks from them.
        config: The kind's Config.
        slot_values: Initial optimiser slots of the embedding rows.

    Raises:
        ValueError: There is no such kind, or the features do not fit.
    """
    return entry(kind).model(schema, config, slot_values)
