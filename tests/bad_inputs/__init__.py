"""A list of bad inputs, made by a program from the commands and the public names themselves.

`python -m tests.bad_inputs` tries all of them and prints the share that is answered as it should be:
one sentence that names the argument and a remedy, exit code 2 (`InputError` in Python), at once, with
nothing written. A sample of the list is part of the tests.
"""
