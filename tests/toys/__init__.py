"""One toy of everything that can be added by adding a file; `tests/test_adding.py` adds them."""
