"""Is a replica fit for calls, and may a failed call be tried again?"""
