# SPDX-License-Identifier: Apache-2.0
"""Sizes without building, against built models and against the formulas that users are shown."""

import ast
import operator
import re

import numpy as np
import pytest

from features.schema import Categorical, FeatureSchema, Table
from models.registry import entry
from models.sizes import SYMBOLS, size_of
from tests.models.examples import STRUCTURES, make


def count(model):
    """Trained weights of a built model."""
    dense = sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)
    return dense + model.embeddings.num_rows * model.embeddings.width


def mlp(inputs, units, config, outputs=1, activation=None, batch_norm=None):
    """Weights of an MLP, layer by layer; no last layer with `outputs` None."""
    per_unit = (activation or config.activation) in ("dice", "prelu")
    per_unit += 2 * (getattr(config, "batch_norm", False) if batch_norm is None else batch_norm)
    total = 0
    for width in units:
        total += (inputs + 1) * width + per_unit * width
        inputs = width
    return total + (inputs + 1) * outputs if outputs else total


def letters(kind, schema, config):
    """What each letter of the kind's formula stands for, from schema and Config alone."""
    numbers, ids = len(schema.numeric), len(schema.categorical) + len(schema.lists)
    dim = getattr(config, "embedding_dim", None)
    entering = getattr(config, "numeric_input", "fields")
    found = {
        "R": sum(table.rows for table in schema.tables),
        "k": dim,
        "N": numbers if entering == "fields" else 0,
        "D": numbers if entering == "dense" else 0,
    }
    found["F"] = ids + found["N"]
    found["X"] = x = found["F"] * (dim or 0) + found["D"]
    channels = {h.name: len(h.channels) for h in schema.histories}
    if hasattr(config, "hidden_units"):
        found["M"] = lambda n: mlp(n, config.hidden_units, config)
        found["I"] = dim * (ids + sum(channels.values())) + numbers  # where nothing else is said
    match kind:
        case "afm":
            found["A"] = config.attention_units
        case "dcn":
            found |= {"L": config.cross_layers, "r": config.rank}
        case "xdeepfm":
            found |= {f"h{i}": units for i, units in enumerate(config.cin_units, 1)}
        case "autoint":
            found |= {"L": config.interacting_layers, "W": config.num_heads * config.head_dim}
        case "finalmlp":
            streams = (config.hidden_units, config.second_hidden_units)
            seen = (config.gate_features, config.second_gate_features)
            widths = {n.name: 1 for n in schema.numeric if entering == "dense"}
            for i in range(2):
                context = sum(widths.get(name, dim) for name in seen[i])
                found[f"S{i + 1}"] = mlp(x, streams[i], config, None)
                found[f"s{i + 1}"] = streams[i][-1]
                found[f"G{i + 1}"] = (0 if seen[i] else dim) + mlp(
                    context or dim, config.gate_hidden_units or (), config, x, "relu", False
                )
            found["H"] = config.num_heads
        case "bst" | "transformer" | "sasrec":
            found |= letters_of_transformers(kind, schema, config)
    if kind == "din":
        found["U"] = sum(
            mlp(
                dim * (3 * sum(c.target is not None for c in h.channels) + channels[h.name]),
                config.attention_units,
                config,
                activation=config.attention_activation,
            )
            for h in schema.histories
        )
    targets = {h.name: sum(c.target is not None for c in h.channels) for h in schema.histories}
    if kind == "dien":
        evolving = 2 if config.evolution == "agru" else 3
        found["G"] = sum(
            (2 * (e := dim * channels[name]) + 1) * (3 + evolving) * e + dim * targets[name] * e
            for name in channels
        )
    return found | memory_letters(kind, schema, config)


def block(e, heads, units, attentions=1):
    """Weights of a transformer's block of tokens of width e."""
    attention = 4 * e * heads * -(-e // heads)
    return attentions * (attention + 2 * e) + 2 * e * units + units + 3 * e


def letters_of_transformers(kind, schema, config):
    """Letters of the kinds whose histories are encoded by transformers."""
    k, options = config.embedding_dim, (config.num_heads, config.feed_forward_units)
    found = dict.fromkeys("EVB", 0)
    found["I"] = k * (len(schema.categorical) + len(schema.lists)) + len(schema.numeric)
    for history in schema.histories:
        e = k * len(history.channels)
        targets = sum(channel.target is not None for channel in history.channels)
        match kind:
            case "bst":
                e += k
                found["B"] += config.transformer_layers * block(e, *options)
                found["B"] += k * (len(history.channels) - targets + history.max_items + 1)
                found["I"] += 2 * e
            case "transformer":
                last = 2 * e * (config.order == "pre")
                found["E"] += config.encoder_layers * block(e, *options) + last
                of_positions = {"learned": history.max_items * e, "sinusoidal": 1, "none": 0}
                found["E"] += of_positions[config.positions]
                found["V"] += config.decoder_layers * block(e, *options, attentions=2) + last
                found["V"] += targets * (k + 1) * e + e
                found["I"] += targets * e
            case "sasrec":
                found["E"] += config.encoder_layers * block(e, *options) + 2 * e
                found["E"] += history.max_items * e
                found["I"] += e
    return found


def memory_letters(kind, schema, config):
    """The same for what memory networks alone have."""
    numbers, ids = len(schema.numeric), len(schema.categorical) + len(schema.lists)
    dim, histories = getattr(config, "embedding_dim", None), len(schema.histories)
    channels = [channel for history in schema.histories for channel in history.channels]
    places = sum(history.max_items for history in schema.histories)
    found = {"H": histories}
    match kind:
        case "memn2n":
            memories = config.num_hops + 1 if config.tying == "adjacent" else 2
            sets = memories + (config.tying == "layer_wise")
            found |= {"S": sets, "T": memories * places * dim}
            found["I"] = dim * (ids + histories) + numbers
        case "kvmemnn":
            found |= {"J": config.num_hops, "I": dim * (ids + histories) + numbers}
        case "dmn":
            asked = sum(channel.target is not None for channel in channels)
            found |= {"U": config.memory_units, "G": config.gate_units}
            found |= {"E": dim * len(channels), "Q": dim * asked}
            found["I"] = dim * ids + config.memory_units * histories + numbers
        case "memnn":
            found |= {"T": dim * places, "I": dim * (ids + histories) + numbers}
        case _:
            return {}
    return found


def evaluate(formula, values):
    """The value of a formula in which factors side by side are multiplied."""
    tokens = re.findall(r"[A-Za-z]\w*|\d+|[()+\-/]", formula)
    assert re.sub(r"\s", "", formula) == "".join(tokens), formula
    text = ""
    for before, part in zip(["+", *tokens], tokens, strict=False):
        joined = before not in "+-/(" and part not in "+-/)" and before + part != "M("
        text += f" * {part}" if joined else f" {part}"
    operators = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
                 ast.Div: operator.truediv}  # fmt: skip

    def value(node):
        match node:
            case ast.BinOp():
                return operators[type(node.op)](value(node.left), value(node.right))
            case ast.Call():
                return values[node.func.id](value(node.args[0]))
            case ast.Name():
                return values[node.id]
            case ast.Constant():
                return node.value
        raise AssertionError(ast.dump(node))

    return value(ast.parse(text.strip(), mode="eval").body)


@pytest.mark.parametrize(("kind", "options"), STRUCTURES)
def test_size_and_formula_are_those_of_the_built_model(kind, options):
    model = make(kind, **options)
    config = entry(kind).config(**options)
    size = size_of(kind, model.schema, config)
    assert size.total == count(model)
    assert size.width == model.embeddings.width
    assert size.vectors + size.linear + size.dense == size.total
    formula = entry(kind).model.parameter_formula(config)
    assert evaluate(formula, letters(kind, model.schema, config)) == count(model), formula


@pytest.mark.parametrize(("kind", "options"), STRUCTURES)
def test_every_letter_of_a_formula_is_explained(kind, options):
    found = entry(kind)
    explained = {**SYMBOLS, **found.model.symbols}
    named = set(re.findall(r"[A-Za-z]\w*", " ".join(explained)))
    used = set(re.findall(r"[A-Za-z]\w*", found.model.parameter_formula(found.config(**options))))
    assert {re.sub(r"h\d", "h1", letter) for letter in used} <= named


def fields_in_one_table(rows, fields):
    features = tuple(Categorical(name=f"f{i}", table="all") for i in range(fields))
    return FeatureSchema(tables=(Table(name="all", rows=rows),), features=features)


@pytest.mark.parametrize(
    ("rows", "fields", "dim", "vectors"),
    [(32_870_706, 50, 4, 6_574_141_200), (554_365, 86, 50, 2_383_769_500)],
)
def test_large_ffm_is_counted_without_memory_for_it(rows, fields, dim, vectors):
    """OPT-05: what would be 26 and 10 GB."""
    config = entry("ffm").config(embedding_dim=dim)
    size = size_of("ffm", fields_in_one_table(rows, fields), config)
    assert (size.vectors, size.linear, size.dense) == (vectors, rows, 1)


def test_layers_of_any_size_are_counted_without_memory_for_them():
    config = entry("deepfm").config(hidden_units=(10**5, 10**5))
    assert size_of("deepfm", fields_in_one_table(100, 2), config).dense > 10**10
