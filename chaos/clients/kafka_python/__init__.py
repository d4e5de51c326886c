"""The clients that use kafka-python, on the programs of `chaos.clients.python`. `runtime` installs a release."""
