"""One or more log directories, as a broker keeps them."""
