"""The archive: evaluations and their texts in an SQL database, for people who look for answers.

Kafka stays the source of truth; the archive can be rebuilt from it.

- `tables`: the tables, the same for SQLite and PostgreSQL
- `database`: opens the database of a URL, creates it or upgrades it in place, and runs transactions
- `migrations`: the versions of the tables, applied in order
"""
