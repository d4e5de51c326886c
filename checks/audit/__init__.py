"""The audit: from the tables of the ledger to findings, times and curves. Pure functions of a run directory.

| package | content |
|---|---|
| `load` | the ledger, checked against its seal |
| `facts` | who had to read what from where, who led which partition |
| `engine` | the two passes over the large tables, and their aggregates |
| `rules` | one rule per anomaly: scope, rows examined, judgement, explanation |
| `output` | the tables of the audit |
| `stage` | the audit of one run |
"""

from checks.audit.output.tables import AUDIT_TABLES
from checks.audit.stage import audit

__all__ = ["AUDIT_TABLES", "audit"]
