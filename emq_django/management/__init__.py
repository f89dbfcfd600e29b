"""Django finds the commands here."""
