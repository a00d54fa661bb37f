"""How does a call's record get from its end to the database, across crashes? See `ledger`."""

from gateway.ledger.ledger import Ledger, LedgerStats

__all__ = ["Ledger", "LedgerStats"]
