"""The tests. A package, so that no library of this name can take its place; the folders below mirror app/."""
