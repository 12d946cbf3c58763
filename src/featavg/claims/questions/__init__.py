"""Claims on the questions that the documents leave open; all have the theme "Open questions"."""
