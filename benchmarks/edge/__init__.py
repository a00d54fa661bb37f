"""What does a proxied call cost, beside the proxies that people would use instead?"""
