"""Read the final log back from the healed cluster into the ledger."""
