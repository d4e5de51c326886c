"""The audit: from the tables of the ledger to the findings, by rules that each stand in one function.

`load` reads and checks the ledger, `readers`, `epochs`, `starts` and `ranges` say who had to read what from where,
`write_path`, `read_path`, `commits` and `groups` hold the rules, `times` and `curves` the measurements, `history` and
`mechanism` the explanations, `tables` the results. `stage` puts them together.
"""

from checks.audit.stage import audit, derive
from checks.audit.tables import AUDIT_TABLES

__all__ = ["AUDIT_TABLES", "audit", "derive"]
