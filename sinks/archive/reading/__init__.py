"""Reads the archive for the page: one module for each screen, and shared parts.

- `overview`: figures of all apps, and one series of an app
- `corrected`: means that are corrected by the labels of people
- `answers`: answers by filters, in stable pages
- `answer`: one answer with its texts, labels and neighbours
- `filters`: the values that answers can be filtered by
- `alerts`: open and closed alerts
- `judges`: figures of judges, their recent failures and their canaries
- `judge_quality`: how well each judge agrees with people
- `labels`: the labels of reviewers
- `review`: answers to label, a random sample
- `audit_log`: labels and replays, and who made them
- `sums`: sums over minutes and hours
- `times`: time ranges, and their division into slots for charts
"""
