"""Claims about the paper's theorems and lemmas."""
