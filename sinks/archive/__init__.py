"""The archive: evaluations and their texts in an SQL database, for people who search for answers.

Kafka stays the source of truth; the archive can be rebuilt from it.

- `tables`: the tables, the same for SQLite and PostgreSQL
- `database`: opens the database of a URL, creates it or upgrades it in place, and runs transactions
- `published`: decodes the fields of published records that the archive needs
- `writing`: writes batches, each in one transaction with the positions after it
- `bulk`: statements over many rows, each written in the way that is fastest for the database
- `rollups`: sums over minutes and hours
- `texts`: prepares user texts: complete, redacted or left out
- `reading`: reads the archive for the page
- `removal`: removes rows together with their dependent rows
- `retention`: deletes rows older than `archive.keep_days`
- `erasure`: deletes interactions and tenants permanently, on request
- `stats`: figures about the archive
- `migrations`: the versions of the tables, applied in order
"""
