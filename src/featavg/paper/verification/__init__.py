"""Public networks of the verification literature, decided on their images."""
