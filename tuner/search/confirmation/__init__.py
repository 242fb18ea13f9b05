"""What repeated launches of the leaders and the references say: intervals, a winner, and when to stop."""
