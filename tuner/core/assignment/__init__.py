"""What a tensor split physically is: which device holds which part of the model, by the engine's own rules."""
