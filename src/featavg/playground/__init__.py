"""The playground: one HTML file in which two networks train before the reader's eyes."""
