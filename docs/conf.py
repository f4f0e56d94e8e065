"""Sphinx's settings for the site that `make docs` builds (tools/docs). Everything comes from Debian's packages, and the pages
ask nothing of the network: search works from the file system too."""

project = "weir"
author = "the weir authors"
extensions = ["myst_parser"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header", "misc.highlighting_failure"]  # blocks of JSON with … in them are not whole documents
html_theme = "furo"
html_title = "weir"
html_show_sphinx = False
html_copy_source = False
