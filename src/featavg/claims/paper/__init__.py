"""Claims of the paper and of the lecture notes: figures, lemmas, theorems, radii."""
