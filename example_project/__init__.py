"""The running example of the documentation: airports, imported from CSV files in the background."""
