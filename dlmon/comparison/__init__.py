"""Compare like with like: published figures, earlier runs, prices and peaks."""
