# SPDX-License-Identifier: Apache-2.0
"""The JSON schema of configs: what editors check and docs/configuration.md is made from."""

from typing import Any

from models.registry import MODELS
from pipeline.config import RunConfig


def config_schema() -> dict[str, Any]:
    """Return the schema of a run's config, each model kind with its own options."""
    schema = RunConfig.model_json_schema()
    definitions = schema.setdefault("$defs", {})
    options = []
    for kind, entry in MODELS.items():
        model = entry.config.model_json_schema()
        definitions |= model.pop("$defs", {})
        model["title"] = f"{kind}: {entry.summary}"
        model["properties"] = {"kind": {"const": kind}} | model["properties"]
        model["required"] = ["kind", *model.get("required", [])]
        definitions[f"model_{kind}"] = model
        options.append({"$ref": f"#/$defs/model_{kind}"})
    description = schema["properties"]["model"]["description"]
    schema["properties"]["model"] = {"description": description, "oneOf": options}
    return schema
