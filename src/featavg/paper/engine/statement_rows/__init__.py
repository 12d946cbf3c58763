"""The statements of the five documents, one file for each; `claims.statements` joins them with claims.

Names begin with the document: "notes" for the lecture notes, "itcs" and "csml" for the two talks,
"summary" and "abstract" for the two pages on the paper.
"""

from __future__ import annotations

from featavg.paper.engine.statement_rows.csml_talk import CSML
from featavg.paper.engine.statement_rows.itcs_talk import ITCS
from featavg.paper.engine.statement_rows.notes import NOTES
from featavg.paper.engine.statement_rows.paper_pages import ABSTRACT, SUMMARY
from featavg.paper.engine.statement_rows.row import Row

DOCUMENTS = {
    "notes": "Lecture notes on arXiv 2410.10322",
    "itcs": "Talk at iTCS 2024",
    "csml": "Talk at CSML 2024",
    "summary": "Summary of arXiv 2410.10322",
    "abstract": "Abstract of arXiv 2410.10322",
}
ROWS: tuple[Row, ...] = (*NOTES, *ITCS, *CSML, *SUMMARY, *ABSTRACT)
