"""What is right and wrong with engine, cards, host and model: from facts to checks, nothing is asked here."""
