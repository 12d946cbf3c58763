"""The reproduction of the documents, built on the library."""
