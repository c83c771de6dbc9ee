"""Messages that are due at a moment of their own: into the timer's topic, into the wheel, and out again when due."""
