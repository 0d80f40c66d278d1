"""The pages that are written from the code: `make reference` writes them, and the tests fail when one is out of date.

- `pages`: the list of pages, and how they are written
- `configuration`: the tables of docs/configuration.md, from the model of the configuration
- `cli`: docs/reference/cli.md, from the commands
- `topics`: docs/reference/topics.md, from the list of topics, the headers and the models of the records
- `metrics`: docs/reference/metrics.md, from the metrics

None of it is shipped, and no page of the site is made of these files.
"""
