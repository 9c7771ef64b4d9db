# SPDX-License-Identifier: Apache-2.0
"""The JSON schema of configs, for editors."""

from typing import Any

from models.registry import MODELS
from pipeline.config import RunConfig
from pipeline.config_data import SHORT_FORMS


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
    properties = schema["properties"]
    properties["model"] = {"description": properties["model"]["description"], "oneOf": options}
    for section, key in SHORT_FORMS.items():
        full = properties[section]
        described = {name: full.pop(name) for name in ("description", "default") if name in full}
        short = {"type": "string", "description": f"Short for {{{key}: …}}."}
        properties[section] = described | {"anyOf": [full, short]}
    return schema
