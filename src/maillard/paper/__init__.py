"""The experiments of the KL-MS paper, run again: what `maillard reproduce` does.

One script per experiment, in the order of the report: `figure_1`, `regret`, `offline`, `timing`,
`reader`, `table_1`. They are built on what any user has: `collect`, `simulate`, `evaluate`,
`bounds`, and a figure now and then. `published.json` holds the numbers that the paper prints.
"""
