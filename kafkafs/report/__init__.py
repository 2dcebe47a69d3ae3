"""A store on one page: gathered as plain values, and rendered as HTML that needs nothing else.

gathering   a store, looked at; `facts` are what it finds
page        the facts as a page
"""

from __future__ import annotations

from kafkafs.report.facts import Report
from kafkafs.report.gathering import VERIFYING, Extent, Gathering
from kafkafs.report.page import page_of

__all__ = ["VERIFYING", "Extent", "Gathering", "Report", "page_of"]
