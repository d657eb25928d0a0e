"""V: the ways back into the family.

Each is a part of a filter, of the type `hmnn.core.filtering.Projection`.
"""
