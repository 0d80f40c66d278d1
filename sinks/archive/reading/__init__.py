"""Reads the archive for the page: one module for each screen, and what they share.

- `overview`: figures of all apps, and the series of one
- `answers`: answers by filters, in stable pages
- `answer`: one answer with its texts, labels and neighbours
- `filters`: the values that answers can be filtered by
- `alerts`: open and closed alerts
- `judges`: figures of judges, their recent failures and their canaries
- `review`: answers to label, a random sample
- `audit_log`: who labelled and who replayed what
- `sums`: sums over minutes and hours
- `times`: time ranges, and their slots in charts
"""
