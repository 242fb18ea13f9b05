"""Whether a result still holds: what it was made with against what there is now, part by part."""
