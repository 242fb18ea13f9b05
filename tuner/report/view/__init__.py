"""What each section of a report says, as values: no markup, no file, no clock."""
