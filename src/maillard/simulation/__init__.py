"""Thousands of independent trials at SIMD speed: the same formulas as online, over blocks."""
