"""Kafka: moves bytes. No module here knows the meaning of a record.

- `record`: a record as read from a topic, and the dead letter it may become
- `consume_produce`: reads one topic in a consumer group and publishes results together with their offsets
- `orphan_watch`: finds partitions that no member of a group reads, and has the group share them out again
- `stranded`: finds a consumer that librdkafka has left without brokers for good
- `offsets`: which results may be published and which offsets committed, in whatever order work finishes
- `topic_scan`: reads a topic, or a part of it, up to its current end, independently of its consumers
- `topics`: the list of topics and their settings
- `codecs`: checks that every compression codec can be read
- `options`: checks of client options by librdkafka itself
- `producers`: ways to publish: transactional, exclusive, immediate, counting
- `errors`: classifies the broker's errors
- `embedded`: an in-memory broker for a first look and for tests
"""
