"""What the settings of an application promise: `python -m chaos promise`.

An application is a producer, a consumer, a topic and a cluster; any of them may be missing. Its settings come from an
`app.yaml` (`app`), from settings files, and from a cluster that exists (`from_cluster`).

1. `inputs` reads them all: each value is a `Setting` with its origin, such as `app.yaml:4`. `forms` reads the lines of
   a settings file, `dialects` and `frameworks` say what its names mean (`dialects.yaml`). Every command that reads a
   user's settings file reads it here.
2. `facts` brings them under common names, such as `producer.acks`, and adds what a client or a broker uses where they
   say nothing: the defaults of the release (`chaos.setup.runtimes`, `defaults.yaml`), and what a client changes by
   itself (`producer_facts`, `consumer_facts`).
3. `answers` compares the facts with the table in `rules/`: one file for each aspect. A question has rows, and the first
   row that matches is the answer. If a fact is missing, the answer is `unknown` and names it.
4. `problems` names settings that are unknown, or of another client, and those that contradict each other
   (`rules/problems.yaml`). A client or a broker that refuses its settings promises nothing: that is an error.

A promise holds by Kafka's protocol under the faults that it names. It says nothing about bugs of a release.
"""
