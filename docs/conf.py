"""How Sphinx shows the pages that `build.py` has gathered."""

import maillard

project = "Maillard"
author = "The Maillard contributors"
copyright = "the Maillard contributors, MIT licence"
version = release = maillard.__version__

extensions = ["myst_parser"]
myst_enable_extensions = ["attrs_inline", "deflist"]
myst_heading_anchors = 4
nitpicky = True
# Standard names in signatures are not linked: the pages build without a network.
nitpick_ignore_regex = [("py:.*", ".*")]

html_theme = "furo"
html_title = f"Maillard {release}"
html_static_path = ["_static"]
html_css_files = ["maillard.css"]
html_favicon = "_static/mark.svg"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {"sidebar_hide_name": False, "top_of_page_buttons": []}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
highlight_language = "none"
smartquotes = False  # a prime in a formula is none
