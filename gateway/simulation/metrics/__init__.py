"""What a run says, in figures. Functions of outcomes only."""
