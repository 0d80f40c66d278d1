"""Labels of people: sends them from files, and corrects the judges' means by them.

- `reading`: reads the labels of a file; all mistakes are listed at once
- `joining`: joins labels to the evaluations of their interactions, by app and criterion
- `judges`: how well each judge agrees with people, as a table and as JSON
- `calibration`: weights of the judges, and limits of a cascade
- `report`: the corrected means, and plans for more labels, as tables and as JSON
"""
