"""Makes the book: the site of lessons, sources, operations, results and guides (docs/book.md)."""
