"""Margins and KKT points: the claims of five files, in the order of the talks."""

from __future__ import annotations

from featavg.claims import (
    margin_homogeneous,
    margin_kkt,
    margin_linear,
    margin_radius,
    margin_table,
)

CLAIMS = (
    *margin_linear.CLAIMS,
    *margin_homogeneous.CLAIMS,
    *margin_kkt.CLAIMS,
    *margin_radius.CLAIMS,
    *margin_table.CLAIMS,
)
