"""Sphinx's configuration of the book. Its sources are made by make.py."""

project = "Warpsmith"
extensions = ["myst_parser", "book.sidebar"]
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]  # CUDA's newest words, which Pygments lacks
highlight_language = "none"  # fences without one are no Python
exclude_patterns = ["**/included/*"]

html_theme = "furo"
html_title = "Warpsmith"
html_static_path = ["book.css"]
html_css_files = ["book.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_show_search_summary = False  # it would fetch pages, which browsers refuse to a file
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#00588f", "color-brand-content": "#00588f"},
    "dark_css_variables": {"color-brand-primary": "#6db9ee", "color-brand-content": "#6db9ee"},
}
