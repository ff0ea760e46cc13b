"""Proof on the new machine: manifest and target to a report. Standard library only, for Python 3.10 and later.

The whole package is also in each image, as the zipapp `envlock-verify`, and runs there with nothing installed. So it
imports nothing of envlock's other rooms, and probes import what the environment has inside their functions alone.
"""
