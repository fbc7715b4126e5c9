"""The program ended at every named place, started again, and sent everything once more."""
