"""How the product is put on a machine: installed, run as a whole, tested, driven."""
