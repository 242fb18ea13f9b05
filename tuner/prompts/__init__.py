"""Prompt sets as data, and their reader."""
