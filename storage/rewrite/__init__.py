"""Whole stores written anew, partition by partition and by many processes: compacted, rewritten or repartitioned."""
