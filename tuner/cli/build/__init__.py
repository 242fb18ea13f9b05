"""From the options of `tuner tune` to everything that a run needs; nothing is written or launched here."""
