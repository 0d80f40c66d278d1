"""The chaos suite: everything is killed, restarted and made to fail, and afterwards nothing is lost or there twice."""
