"""Labels of people in the monitor: joined to the scores of their answers, for the corrected means.

- `label_record`: a label as it is sent to the topic of scores, and read back
- `ring`: the latest entries, in chunks that are stored one by one
- `memory`: the latest answers and labels of a partition, joined
- `judged_days`: sums over the judged answers of an app, by day
- `agreement`: how well each judge of an app agrees with people
- `first_labels`: the first labels of answers, for intervals that are valid at every look
- `corrections`: the corrected means of an app
"""
