"""The fuzzer behind scripts/fuzz: damaged logs read by the package and by its oracle, and the two compared.

`inputs` makes every input from a seed and a number alone, `batch_check`, `file_check` and `row_check` say what must
hold for one, and `campaign` runs many of them in processes that may die without taking the run with them.
"""
