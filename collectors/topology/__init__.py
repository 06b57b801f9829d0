"""Readers of topology: one file per source, each giving a partial ``Topology``; ``merge`` makes one of them. No I/O."""
