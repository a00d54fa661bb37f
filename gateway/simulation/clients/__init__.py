"""Who sends calls, and what do they do with the answers?"""
