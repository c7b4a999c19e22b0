"""Imports TFLite models."""
