# SPDX-License-Identifier: Apache-2.0
"""The part of a config that says what the report shows beside metrics."""

from typing import Annotated

from pydantic import Field

from pipeline.config_data import FilesConfig, JoinConfig, Section

_Count = Annotated[int, Field(ge=0)]


class NamesConfig(FilesConfig):
    """A table in files that has a name for each value of a feature."""

    key: str = Field(description="Column with the values; each may stand once.")
    name: str = Field(description="Column with their names.")

    def side_table(self) -> JoinConfig:
        """Return how the files are read: as a side table is."""
        files = {option: getattr(self, option) for option in FilesConfig.model_fields}
        return JoinConfig(**files, on=self.key)


class ReportConfig(Section):
    """What the report shows of single rows."""

    histories: _Count | tuple[_Count, ...] = Field(
        3,
        description="How many test rows are shown with their history and the weights of its "
        "events, drawn by the seed among rows with a past event; or a list of row_ids, as "
        "evaluate/predictions/test.parquet has them. 0 for none.",
    )
    names: dict[str, NamesConfig] = Field(
        {},
        description="Names of a categorical feature's values, such as the titles of items, by "
        "feature: {item_id: {files: items.csv, key: item_id, name: title}}. Report and "
        "`clickloom explain` show them beside the values.",
    )
