"""A session among others: published figures and earlier runs, in a panel and a screen."""
