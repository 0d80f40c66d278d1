"""Kafka: moves bytes. Nothing here knows what a record means.

- `record`: a record as the client delivered it, and the dead letter it may become
- `consume_produce`: reads one topic in a consumer group and publishes results together with their offsets
- `offsets`: which results may be published and which offsets committed, whatever order work finishes in
- `topic_scan`: reads a topic, or a part of it, up to its current end, beside its consumers
- `topics`: the one list of topics, and how they are created
- `producers`: ways to publish: transactional, exclusive, immediate, counting
- `errors`: what the broker's errors mean for a client
- `embedded`: an in-memory broker for a first look and for tests
"""
