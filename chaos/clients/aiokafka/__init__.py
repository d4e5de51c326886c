"""The clients that use aiokafka, on the programs of `chaos.clients.python`. `runtime` installs a release."""
