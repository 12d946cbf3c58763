"""Does a classifier of anybody's average its features, and what does that cost?"""
