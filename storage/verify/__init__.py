"""What is wrong with the bytes on disk, from a batch to a store, found without changing one."""
