"""The tables of the audit, from the tally of both passes; `tables` writes them."""
