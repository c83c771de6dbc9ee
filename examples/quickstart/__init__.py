"""The main job in one program: send real records, consume them with a group of two, check that each arrived once."""
