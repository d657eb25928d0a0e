"""The page of `hmnn report`: a document that any browser reads, and that fetches nothing."""
