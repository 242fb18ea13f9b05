"""Pure decisions about what to try next."""
