"""The canary of a retune: what was best before, launched with what there is now, and what follows from it."""
