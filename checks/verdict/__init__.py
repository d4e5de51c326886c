"""From expectations, fault outcomes and counts to one verdict."""
