"""One way to run many scenarios: a warm judge, lent clusters, and a runner."""
