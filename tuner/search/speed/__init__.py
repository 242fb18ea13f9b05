"""What a launch will run at: a model of decode time, fitted to the study's samples, and what it proposes."""
