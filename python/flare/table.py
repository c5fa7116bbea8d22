# SPDX-License-Identifier: Apache-2.0
"""Columns of equal length, for whatever data-frame library is there."""
from __future__ import annotations

from typing import Any


class Table:
    """A dictionary of columns: NumPy arrays, or lists of strings. Needs no other library itself."""

    def __init__(self, columns: dict[str, Any]):
        self.columns = columns

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def __getitem__(self, name: str):
        return self.columns[name]

    def to_pandas(self):
        """A pandas.DataFrame."""
        import pandas
        return pandas.DataFrame(self.columns)

    def to_arrow(self):
        """A pyarrow.Table."""
        import pyarrow
        return pyarrow.table(self.columns)

    def __arrow_c_stream__(self, requested_schema=None):
        """For polars, duckdb and others that speak Arrow's C interface (needs pyarrow)."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"Table({len(self)} rows: {', '.join(self.columns)})"
