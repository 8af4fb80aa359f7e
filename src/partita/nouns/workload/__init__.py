"""What a serving deployment is asked for: requests with their lengths and arrivals."""
