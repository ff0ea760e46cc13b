"""The checks: each module has one, as CHECK. The list of them all is in `envlock.verify.catalogue`."""
