"""Recorded sessions and sweeps as pages, tables and pictures to hand on."""
