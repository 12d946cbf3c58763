"""What writes, reads, caches and signs files. Shared ground: every stage may use it."""
