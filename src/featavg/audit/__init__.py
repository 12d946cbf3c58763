"""The audit of a classifier: does it average its features, what does it cost, what helps?"""
