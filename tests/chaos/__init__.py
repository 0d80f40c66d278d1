"""The chaos suite: everything is killed, restarted and made to fail; afterwards no record is lost or duplicated."""
