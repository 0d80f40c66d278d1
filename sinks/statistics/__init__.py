"""Statistics shared by metrics, reports and comparisons.

- `estimates`: means of weighted samples, with intervals
- `anytime`: an interval for a mean, valid at every look
- `corrected`: the judges' mean, corrected by the labels of people
- `corrected_anytime`: the same, valid at every look
- `label_design`: how likely an answer is chosen for labelling, and how many labels an interval needs
- `difference`: the mean difference of paired scores, with its interval
- `kappa`: agreement beyond chance
- `fixed_sequence`: the loosest limit at which a judge agrees with people often enough
- `judge_quality`: how well a judge agrees with people
- `labelled_answers`: the judges' verdicts on answers that people labelled
- `measured_judges`: the quality of every judge, by criterion and by the answer's model family or language
- `accumulators`: figures collected one by one in constant memory
"""
