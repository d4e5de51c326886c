"""DAGs of scenarios and campaigns, and the provider with operators for DAGs of others."""
