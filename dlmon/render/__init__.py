"""Write figures: in lines, as Markdown, as HTML, as tables, as pictures."""
