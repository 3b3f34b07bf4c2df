"""What past launches took, for the next ones: measured, kept, and told as what is usual."""
