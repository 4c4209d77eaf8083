"""Every metric of one run or several over each other: a grid of charts with one cursor."""
