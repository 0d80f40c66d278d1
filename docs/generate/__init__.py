"""Generates the pages that follow from the code. `make reference` writes them; the tests fail when one is out of date.

- `__main__`: `python -m docs.generate` writes all generated pages
- `pages`: the list of generated pages
- `configuration`: the tables of docs/configuration.md, from the model of the configuration
- `cli`: docs/reference/cli.md, from the commands
- `topics`: docs/reference/topics.md, from the list of topics, the headers and the models of the records
- `metrics`: docs/reference/metrics.md, from the metrics

This package is not shipped, and the site does not contain it.
"""
