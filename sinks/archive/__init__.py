"""The archive: evaluations and their texts in an SQL database, for people who look for answers.

Kafka stays the source of truth; the archive can be rebuilt from it.

- `tables`: the tables, the same for SQLite and PostgreSQL
- `database`: opens the database of a URL, creates it or upgrades it in place, and runs transactions
- `published`: reads records of Kafka into the parts that the archive needs
- `writing`: writes batches, each in one transaction with the positions after it
- `bulk`: statements over many rows, in the fastest way of each database
- `rollups`: sums over minutes and hours
- `texts`: texts of users: whole, redacted or left out
- `reading`: reads the archive for the page
- `removal`: removes rows with all that belongs to them
- `retention`: deletes rows that are older than the archive keeps
- `erasure`: deletes interactions and tenants on request, for good
- `stats`: figures about the archive
- `migrations`: the versions of the tables, applied in order
"""
