"""The fuzzer behind scripts/fuzz: damaged logs read by the package and by its oracle, and the two compared.

`inputs`, `row_inputs`, `bomb_inputs` and `small_files` make every input from a seed and a number alone; `batch_check`,
`file_check`, `row_check`, `bomb_check` and `small_files` say what must hold for one, and `campaign` runs many of them
in processes that may die without taking the run with them.
"""
