"""The rules of phase S, one module for each subject."""
