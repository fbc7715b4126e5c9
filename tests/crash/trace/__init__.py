"""The order of writes, syncs and answers, as the operating system saw them."""
