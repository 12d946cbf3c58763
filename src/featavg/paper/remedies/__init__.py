"""Claims about what helps: partly known labels, and neurons that compete."""
