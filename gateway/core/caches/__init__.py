"""What do the replicas hold already? Hashes of prompts, and where each was sent last."""
