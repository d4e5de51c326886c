"""From an incident to a scenario and back: bundles, replays, and skeletons from the logs of brokers (`logs`)."""
