"""The local judge's assessors, one per criterion."""
