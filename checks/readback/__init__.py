"""Read-back of the final log from the healed cluster into the ledger."""
