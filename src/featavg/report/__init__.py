"""From outcomes to paper and screen: `figures` (matplotlib) and `page` (one HTML file)."""
