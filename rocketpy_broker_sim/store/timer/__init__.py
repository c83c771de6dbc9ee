"""The files of the timer: wheel, log and checkpoint, and their recovery."""
