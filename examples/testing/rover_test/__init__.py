"""A package whose robot is tested: your launch files, assets and nodes would be here."""
