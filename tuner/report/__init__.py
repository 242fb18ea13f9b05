"""best.json, its schema and its exports."""
