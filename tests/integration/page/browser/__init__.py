"""A package, so that the installation of its tests ends with the last of them."""
