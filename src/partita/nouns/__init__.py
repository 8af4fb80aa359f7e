"""What the model is, what the machine is, and how one is split over the other."""
